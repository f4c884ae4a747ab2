// SPDX-License-Identifier: GPL-2.0-only
// Eight bytes as a number whose lowest bits are the first byte, on every machine.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace sluice {

inline uint64_t WordAt(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

}  // namespace sluice
