// SPDX-License-Identifier: GPL-2.0-only
// Where in a text a match of a regular expression may begin.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::regexes {

inline constexpr uint32_t kAnchored = 0x80000000;  // PCRE2_ANCHORED

// The pairs of bytes with which the matches of an expression begin, or more. Upper and lower case of a letter are the same here.
class FirstPairs {
 public:
  // Of a pattern that PCRE2 has taken, with its options. Nothing: a match may be shorter than two bytes, or begin with almost anything, or the pattern has what isn't known here.
  static std::optional<FirstPairs> Of(std::string_view pattern, uint32_t options);

  // The first place from `start` on where a match may begin. `length`: there is none.
  size_t Next(const uint8_t* text, size_t length, size_t start) const {
    size_t at = start;
    while (at + kAtOnce < length && !(Has(text + at) | Has(text + at + 1) | Has(text + at + 2) | Has(text + at + 3))) at += kAtOnce;
    for (; at + 1 < length; ++at) {
      if (Has(text + at)) return at;
    }
    return length;
  }

 private:
  static constexpr size_t kAtOnce = 4;
  static constexpr size_t kBits = 64;
  FirstPairs() = default;

  bool Has(const uint8_t* pair) const { return (seconds_[pair[0]][pair[1] / kBits] >> (pair[1] % kBits) & 1) != 0; }

  // By the first, a bit for each.
  std::array<std::array<uint64_t, 256 / kBits>, 256> seconds_{};
};

}  // namespace sluice::regexes
