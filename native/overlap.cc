// SPDX-License-Identifier: GPL-2.0-only
// Measures patterns as libclamav does, and makes one of any length.
#include "overlap.h"

#include <algorithm>
#include <charconv>

namespace sluice::overlap {
namespace {

// Takes a choice and the parenthesis that ends it from the text. (B), (L) and (W) take no byte.
uint32_t DigitsOfChoice(std::string_view& text) {
  uint32_t longest = 0;
  uint32_t digits = 0;
  while (!text.empty()) {
    const char letter = text.front();
    text.remove_prefix(1);
    if (letter == ')') break;
    if (letter == '|') {
      longest = std::max(longest, digits);
      digits = 0;
    } else {
      digits += letter == '(' ? DigitsOfChoice(text) : 1;
    }
  }
  return std::max(longest, digits) & ~1U;
}

// What is between two brackets, which are taken from the text; the first one has been.
std::string_view TakeTo(char end, std::string_view& text) {
  const std::string_view within = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), within.size() + 1));
  return within;
}

// 0: it has no fixed length, or a long one.
uint32_t FixedGap(std::string_view range) {
  constexpr uint32_t kMax = 127;
  uint32_t bytes = 0;
  const auto end = std::from_chars(range.data(), range.data() + range.size(), bytes).ptr;
  return end == range.data() + range.size() && bytes <= kMax ? bytes : 0;
}

}  // namespace

uint32_t LengthOf(std::string_view pattern) {
  uint32_t longest = 0;
  uint32_t digits = 0;
  // Behind the first gap that divides a pattern, each one does.
  bool is_divided = false;
  // One byte before or behind a [2-4] is no part of the pattern.
  bool is_apart = false;
  const auto end_part = [&] {
    longest = std::max(longest, digits / 2);
    digits = 0;
    is_apart = false;
  };
  while (!pattern.empty()) {
    const char letter = pattern.front();
    pattern.remove_prefix(1);
    if (letter == '{') {
      const uint32_t gap = FixedGap(TakeTo('}', pattern));
      is_divided = is_divided || gap == 0;
      digits += is_divided ? 0 : 2 * gap;
      if (is_divided) end_part();
    } else if (letter == '*') {
      end_part();
    } else if (letter == '[') {
      TakeTo(']', pattern);
      if (digits == 2) digits = 0;
      else is_apart = true;
    } else if (letter == '(') {
      digits += DigitsOfChoice(pattern);
    } else if (letter != '!' && !is_apart) {
      digits++;
    }
  }
  end_part();
  return longest;
}

void Join(Lengths& lengths, const Lengths& others) {
  for (size_t kind = 0; kind < lengths.size(); kind++) lengths[kind] = std::max(lengths[kind], others[kind]);
}

std::string FillersFor(const Lengths& present, const Lengths& wanted) {
  // Text is cut before it is known for which signatures.
  constexpr size_t kText = 7;
  // Few contents have it, and all else may be anything: so neither libclamav's filter nor its tree takes much of it.
  constexpr std::string_view kHead = "f39d0bc7e681a2d5";
  constexpr uint32_t kHeadBytes = kHead.size() / 2;
  constexpr uint32_t kGapMax = 127;
  std::string lines;
  for (size_t kind = 0; kind < wanted.size(); kind++) {
    if (present[kind] >= wanted[kind]) continue;
    // Pieces are cut for this kind and for all kinds (0) at once. Without a pattern the matcher has nothing to do.
    if (present[kind] == 0 && wanted[kind] <= wanted[0] && kind != 0 && kind != kText) continue;
    lines += "Sluice.Overlap." + std::to_string(kind) + ";Engine:81-255,FileSize:0-0,Target:" + std::to_string(kind) + ";0;" +
             std::string(kHead.substr(0, 2 * size_t{wanted[kind]}));
    uint32_t rest = wanted[kind] - std::min(wanted[kind], kHeadBytes);
    for (; rest > 1; rest -= std::min(rest - 1, kGapMax)) lines += "{" + std::to_string(std::min(rest - 1, kGapMax)) + "}";
    lines += rest == 1 ? "c9\n" : "\n";
  }
  return lines;
}

}  // namespace sluice::overlap
