// SPDX-License-Identifier: GPL-2.0-only
// Numbers and marks in the bytes of a content. Of numbers the lowest bits are the first byte, on every machine.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace sluice {

using Bytes = std::span<const uint8_t>;

// Of eight bytes.
inline uint64_t WordAt(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

inline uint16_t Half(Bytes bytes, size_t at) { return static_cast<uint16_t>(bytes[at] | bytes[at + 1] << 8); }
inline uint32_t Word(Bytes bytes, size_t at) { return Half(bytes, at) | static_cast<uint32_t>(Half(bytes, at + 2)) << 16; }
inline uint64_t Long(Bytes bytes, size_t at) { return WordAt(bytes.data() + at); }

inline std::string_view TextOf(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// They go on with the mark at this place.
inline bool Has(Bytes bytes, size_t at, std::string_view mark) {
  return at <= bytes.size() && bytes.size() - at >= mark.size() && std::memcmp(bytes.data() + at, mark.data(), mark.size()) == 0;
}

}  // namespace sluice
