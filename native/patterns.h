// SPDX-License-Identifier: GPL-2.0-only
// Body signatures of libclamav, as far as it has to be known where one of their parts can lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::patterns {

constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();
// The bit by which capital letters differ from others.
constexpr uint8_t kCase = 0x20;
// All letters have it.
constexpr uint8_t kLetter = 0x40;

// A byte of which some bits are known, or bytes of which none is.
struct Item {
  uint8_t value = 0;
  uint8_t mask = 0;
  // Bytes, at most.
  uint32_t length = 1;
  // It has this length and no other.
  bool is_byte = true;

  // But for the case of letters.
  bool is_known() const { return is_byte && (mask == 0xff || ((mask | kCase) == 0xff && (value & kLetter) != 0)); }
};

// In bytes, at most.
uint32_t LengthOf(std::span<const Item> items);

// What libclamav's matcher looks for by itself, and puts together later.
struct Part {
  std::vector<Item> items;
  // Bytes between the part before and this one, at most.
  uint32_t gap = 0;

  // Something in it has no fixed length. libclamav may take such a part for found where bytes end before it does.
  bool is_uneven() const;
};

// Nothing: it is not understood. `any_case`: of all letters.
std::optional<std::vector<Part>> Read(std::string_view hex, bool any_case);

}  // namespace sluice::patterns
