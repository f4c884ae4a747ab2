// SPDX-License-Identifier: GPL-2.0-only
// How bytes are spelled: each reader hands them on as long as it is asked to, and returns where they end.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "bytes.h"
#include "pieces.h"

namespace sluice::spelled {

inline constexpr uint8_t kNoDigit = 16;
inline constexpr std::array<uint8_t, 256> kDigits = [] {
  constexpr std::string_view kAlphabet = "0123456789abcdef";
  std::array<uint8_t, 256> values{};
  values.fill(kNoDigit);
  for (size_t at = 0; at < kAlphabet.size(); at++) {
    values[static_cast<uint8_t>(kAlphabet[at])] = static_cast<uint8_t>(at);
    if (at >= 10) values[static_cast<uint8_t>(kAlphabet[at]) - 0x20U] = static_cast<uint8_t>(at);
  }
  return values;
}();
inline unsigned ValueOf(uint8_t byte) { return kDigits[byte]; }
inline bool IsHexAt(Bytes bytes, size_t at) { return at < bytes.size() && ValueOf(bytes[at]) < kNoDigit; }
inline bool IsDecimalAt(Bytes bytes, size_t at) { return at < bytes.size() && ValueOf(bytes[at]) < 10; }
inline bool IsAlphaAt(Bytes bytes, size_t at) { return at < bytes.size() && (bytes[at] | 0x20) >= 'a' && (bytes[at] | 0x20) <= 'z'; }

// So many digits; nothing: there are fewer.
inline std::optional<uint32_t> HexAt(Bytes bytes, size_t at, size_t digits) {
  uint32_t value = 0;
  for (size_t end = at + digits; at < end; at++) {
    if (!IsHexAt(bytes, at)) return std::nullopt;
    value = value << 4 | ValueOf(bytes[at]);
  }
  return value;
}

template <typename Put>
size_t ReadDigits(Bytes bytes, size_t at, Put&& put) {
  size_t end = at;
  while (true) {
    for (; at + 1 < bytes.size(); at += 2) {
      const unsigned high = ValueOf(bytes[at]);
      const unsigned low = ValueOf(bytes[at + 1]);
      if (high == kNoDigit || low == kNoDigit) break;
      if (!put(static_cast<uint8_t>(high << 4 | low))) return at;
    }
    end = at;
    size_t next = at;
    while (next < bytes.size() && (bytes[next] == '\n' || bytes[next] == '\r')) next++;
    if (next > at) {
      while (next < bytes.size() && (bytes[next] == ' ' || bytes[next] == '\t')) next++;
    } else if (const std::optional<pieces::Next> cut = pieces::Behind(bytes, at)) {
      next = cut->at;
    }
    if (next == at || !IsHexAt(bytes, next)) return end;
    at = next;
  }
}

// Words that stand at numbers in scripts: Chr, ChrW, [char], [byte].
inline size_t BehindWords(Bytes bytes, size_t at) {
  constexpr std::string_view kBetween = " \t\r\n,:;|_\\&+()[]'\"$`";
  constexpr std::string_view kWords[] = {"chrw", "chrb", "chr", "char", "byte", "int"};
  while (at < bytes.size()) {
    const bool is_number = bytes[at] == '&' && at + 2 < bytes.size() && (bytes[at + 1] | 0x20) == 'h' && IsHexAt(bytes, at + 2);
    if (is_number) return at;
    const bool is_joined = (bytes[at] == '.' && at > 0 && bytes[at - 1] == ')') || (bytes[at] == '-' && at > 0 && IsHexAt(bytes, at - 1));
    if (is_joined || kBetween.find(static_cast<char>(bytes[at])) != kBetween.npos) {
      at++;
      continue;
    }
    const auto is_here = [&](std::string_view word) {
      const auto is_same = [](char letter, uint8_t byte) { return letter == static_cast<char>(byte | 0x20); };
      return bytes.size() - at > word.size() && std::equal(word.begin(), word.end(), bytes.begin() + static_cast<ptrdiff_t>(at), is_same);
    };
    const auto word = std::find_if(std::begin(kWords), std::end(kWords), is_here);
    if (word == std::end(kWords)) return at;
    at += word->size();
  }
  return at;
}

struct Number {
  size_t end;
  std::optional<uint8_t> decimal;
  std::optional<uint8_t> hexadecimal;
};
inline std::optional<Number> NumberAt(Bytes bytes, size_t at) {
  if (at > 0 && IsAlphaAt(bytes, at - 1)) return std::nullopt;
  const bool is_negative = bytes[at] == '-';
  if (is_negative) at++;
  const bool is_prefixed = at + 1 < bytes.size() && ((bytes[at] == '0' && (bytes[at + 1] | 0x20) == 'x') || bytes[at] == '&');
  if (is_prefixed) at += 2;
  uint32_t decimal = 0;
  uint32_t hexadecimal = 0;
  bool is_decimal = !is_prefixed;
  const size_t start = at;
  constexpr size_t kDigitsMost = 3;
  for (; IsHexAt(bytes, at) && at - start <= kDigitsMost; at++) {
    is_decimal = is_decimal && IsDecimalAt(bytes, at);
    decimal = decimal * 10 + ValueOf(bytes[at]);
    hexadecimal = hexadecimal << 4 | ValueOf(bytes[at]);
  }
  const size_t digits = at - start;
  if (digits == 0 || digits > kDigitsMost || IsAlphaAt(bytes, at)) return std::nullopt;
  if (at < bytes.size() && (bytes[at] == '.' || bytes[at] == '(')) return std::nullopt;
  constexpr uint32_t kMost = 255;
  constexpr uint32_t kSigned = 128;
  Number number{at, {}, {}};
  if (is_prefixed && hexadecimal <= kMost) number.decimal = number.hexadecimal = static_cast<uint8_t>(hexadecimal);
  if (is_decimal && decimal <= (is_negative ? kSigned : kMost)) number.decimal = static_cast<uint8_t>(is_negative ? 0 - decimal : decimal);
  if (!is_prefixed && !is_negative && digits == 2) number.hexadecimal = static_cast<uint8_t>(hexadecimal);
  return number.decimal || number.hexadecimal ? std::optional(number) : std::nullopt;
}

template <typename Put>
size_t ReadNumbers(Bytes bytes, size_t at, Put&& put) {
  size_t end = at;
  for (at = BehindWords(bytes, at); at < bytes.size(); at = BehindWords(bytes, end)) {
    const std::optional<Number> number = NumberAt(bytes, at);
    if (!number || !put(*number)) break;
    end = number->end;
  }
  return end;
}

// A wide character is two bytes, the low one first, as scripts put machine code into them.
template <typename Put>
bool PutWide(uint32_t value, Put&& put) {
  return put(static_cast<uint8_t>(value)) && put(static_cast<uint8_t>(value >> 8));
}

inline bool StandsInAddress(uint8_t byte) {
  constexpr std::string_view kSigns = "@*_+./-";
  return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') || kSigns.find(static_cast<char>(byte)) != kSigns.npos;
}

template <typename Put>
size_t ReadPercent(Bytes bytes, size_t at, Put&& put) {
  while (at < bytes.size()) {
    const uint8_t byte = bytes[at];
    if (const std::optional<uint32_t> value = byte == '%' ? HexAt(bytes, at + 1, 2) : std::nullopt) {
      if (!put(static_cast<uint8_t>(*value))) return at;
      at += 3;
    } else if (const std::optional<uint32_t> wide = byte == '%' && Has(bytes, at + 1, "u") ? HexAt(bytes, at + 2, 4) : std::nullopt) {
      if (!PutWide(*wide, put)) return at;
      at += 6;
    } else if (const std::optional<pieces::Next> cut = pieces::Behind(bytes, at); cut && cut->at < bytes.size() && bytes[cut->at] == '%') {
      at = cut->at;
    } else {
      if (!StandsInAddress(byte) || !put(byte)) return at;
      at++;
    }
  }
  return at;
}

// Of numbers behind a backslash: most languages have octal ones, Lua has decimal ones.
inline constexpr uint32_t kOctal = 8;
inline constexpr uint32_t kDecimal = 10;

// What stands behind a backslash: a character, and how long its spelling is. Nothing: it is a character that is said by its letter.
struct Escape {
  uint32_t value;
  size_t length;
};
inline std::optional<Escape> EscapeAt(Bytes bytes, size_t at, uint32_t base) {
  constexpr size_t kDigitsMost = 8;
  size_t digits = Has(bytes, at, "x") ? 2 : Has(bytes, at, "u") ? 4 : Has(bytes, at, "U") ? kDigitsMost : 0;
  if (digits > 0) {
    const size_t brace = Has(bytes, at + 1, "{") ? 1 : 0;
    if (brace > 0) digits = 0;
    while (brace > 0 && digits < kDigitsMost && IsHexAt(bytes, at + 2 + digits)) digits++;
    const std::optional<uint32_t> value = HexAt(bytes, at + 1 + brace, digits);
    const bool is_whole = value && (brace == 0 || Has(bytes, at + 2 + digits, "}"));
    return is_whole ? std::optional(Escape{*value, 1 + digits + 2 * brace}) : std::nullopt;
  }
  uint32_t value = 0;
  size_t length = 0;
  for (; length < 3 && at + length < bytes.size() && ValueOf(bytes[at + length]) < base; length++) value = value * base + ValueOf(bytes[at + length]);
  return length > 0 ? std::optional(Escape{value & 0xff, length}) : std::nullopt;
}

// From a quote to the one that ends it, and what is joined to that.
template <typename Put>
size_t ReadEscapes(Bytes bytes, size_t at, uint32_t base, Put&& put) {
  constexpr std::string_view kNames = "nrtabfv";
  constexpr std::string_view kNamed = "\n\r\t\a\b\f\v";
  uint8_t quote = bytes[at++];
  while (at < bytes.size()) {
    const uint8_t byte = bytes[at];
    if (byte == quote || byte == '\n') {
      const std::optional<pieces::Next> cut = byte == quote ? pieces::Behind(bytes, at) : std::nullopt;
      if (!cut || cut->at >= bytes.size()) return at;
      at = cut->at;
      quote = bytes[at - 1];
      continue;
    }
    if (byte != '\\') {
      if (!put(byte)) return at;
      at++;
      continue;
    }
    if (const std::optional<Escape> escape = EscapeAt(bytes, at + 1, base)) {
      // A letter of another script is none of a byte.
      if (escape->value > 0xff || !put(static_cast<uint8_t>(escape->value))) return at;
      at += 1 + escape->length;
      continue;
    }
    const size_t name = at + 1 < bytes.size() ? kNames.find(static_cast<char>(bytes[at + 1])) : kNames.npos;
    if (at + 1 < bytes.size() && !put(name == kNames.npos ? bytes[at + 1] : static_cast<uint8_t>(kNamed[name]))) return at;
    at += 2;
  }
  return bytes.size();
}

}  // namespace sluice::spelled
