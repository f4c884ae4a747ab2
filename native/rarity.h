// SPDX-License-Identifier: GPL-2.0-only
// How rare bytes are in contents, by which the place is chosen where a part of a signature is looked for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::stretches {

// How rare a byte is in contents, about, in bits.
inline constexpr std::array<uint8_t, 256> kRarity = [] {
  constexpr uint8_t kSpace = 0x20;
  constexpr uint8_t kPrintableEnd = 0x7f;
  std::array<uint8_t, 256> rarity{};
  for (size_t byte = 0; byte < rarity.size(); byte++) rarity[byte] = byte < kPrintableEnd ? 6 : 7;
  for (size_t letter = 'a'; letter <= 'z'; letter++) rarity[letter] = 5;
  // Of code for x86.
  for (const uint8_t byte : {0x01, 0x24, 0x45, 0x55, 0x83, 0x89, 0xc0, 0xe8}) rarity[byte] = 5;
  for (const uint8_t byte : {kSpace, uint8_t{0x48}, uint8_t{0x8b}}) rarity[byte] = 4;
  rarity[0xff] = 3;
  rarity[0] = 2;
  return rarity;
}();

}  // namespace sluice::stretches
