// SPDX-License-Identifier: GPL-2.0-only
// Hexadecimal digits, as signatures have them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

inline constexpr uint8_t kNoDigit = 16;
inline constexpr std::array<uint8_t, 256> kDigits = [] {
  std::array<uint8_t, 256> digits{};
  digits.fill(kNoDigit);
  for (uint8_t digit = 0; digit < 10; digit++) digits['0' + digit] = digit;
  for (uint8_t digit = 10; digit < kNoDigit; digit++) digits['a' + digit - 10] = digits['A' + digit - 10] = digit;
  return digits;
}();

inline std::optional<uint8_t> DigitOf(char letter) {
  const uint8_t digit = kDigits[static_cast<uint8_t>(letter)];
  return digit == kNoDigit ? std::nullopt : std::optional(digit);
}

// Of two digits.
inline std::optional<uint8_t> ByteOf(std::string_view digits) {
  const auto high = DigitOf(digits[0]);
  const auto low = DigitOf(digits[1]);
  if (!high || !low) return std::nullopt;
  return static_cast<uint8_t>(*high << 4 | *low);
}

// Empty: there is something else.
inline std::string BytesOfHex(std::string_view hex) {
  if (hex.size() % 2 != 0) return {};
  std::string bytes;
  for (size_t at = 0; at < hex.size(); at += 2) {
    const auto byte = ByteOf(hex.substr(at, 2));
    if (!byte) return {};
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

// The bytes of all digits among other letters, which may lie between the two of one; the last one may lack its second. False: so says `take`.
template <typename Take>
bool ForBytes(std::string_view letters, Take take) {
  std::optional<uint8_t> high;
  for (const char letter : letters) {
    const std::optional<uint8_t> digit = DigitOf(letter);
    if (!digit) continue;
    if (!high) {
      high = digit;
      continue;
    }
    if (!take(static_cast<uint8_t>(*high << 4 | *digit))) return false;
    high.reset();
  }
  return !high || take(static_cast<uint8_t>(*high << 4));
}

}  // namespace sluice
