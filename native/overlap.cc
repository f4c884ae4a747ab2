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

Measures MeasuresOf(std::string_view pattern) {
  Measures found;
  uint32_t digits = 0;
  // Behind the first gap in braces that divides a pattern, each one does.
  bool is_divided = false;
  // One byte before or behind a [2-4] is no part of the pattern.
  bool is_apart = false;
  const auto end_part = [&] {
    found.longest = std::max(found.longest, digits / 2);
    digits = 0;
    is_apart = false;
  };
  const auto divide = [&] {
    end_part();
    found.has_parts = true;
  };
  while (!pattern.empty()) {
    const char letter = pattern.front();
    pattern.remove_prefix(1);
    if (letter == '{') {
      const uint32_t gap = FixedGap(TakeTo('}', pattern));
      is_divided = is_divided || gap == 0;
      digits += is_divided ? 0 : 2 * gap;
      if (is_divided) divide();
    } else if (letter == '*') {
      divide();
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
  return found;
}

void Join(Measures& measures, const Measures& others) {
  measures.longest = std::max(measures.longest, others.longest);
  measures.has_parts = measures.has_parts || others.has_parts;
  measures.has_ends = measures.has_ends || others.has_ends;
}

void Join(Patterns& patterns, const Patterns& others) {
  for (size_t kind = 0; kind < patterns.size(); kind++) Join(patterns[kind], others[kind]);
}

namespace {

// Few contents have it, and all else of a filler may be anything: so neither libclamav's filter nor its tree takes much of it.
constexpr std::string_view kHead = "f39d0bc7e681a2d5";
constexpr uint32_t kHeadBytes = kHead.size() / 2;

std::string PatternOf(uint32_t bytes) {
  constexpr uint32_t kGapMax = 127;
  std::string pattern(kHead.substr(0, 2 * size_t{bytes}));
  uint32_t rest = bytes - std::min(bytes, kHeadBytes);
  for (; rest > 1; rest -= std::min(rest - 1, kGapMax)) pattern += "{" + std::to_string(std::min(rest - 1, kGapMax)) + "}";
  return rest == 1 ? pattern + "c9" : pattern;
}

}  // namespace

std::string FillersFor(const Patterns& present, const Patterns& wanted) {
  // Text is cut before it is known for which signatures.
  constexpr size_t kText = 7;
  std::string lines;
  for (size_t kind = 0; kind < wanted.size(); kind++) {
    const auto [longest, has_parts, has_ends] = wanted[kind];
    const Measures& own = present[kind];
    // Pieces are cut for this kind and for all kinds (0) at once. Without a pattern the matcher has nothing to do.
    const bool is_idle = own.longest == 0 && longest <= wanted[0].longest && kind != 0 && kind != kText;
    const bool lacks_length = own.longest < longest && !is_idle;
    const bool lacks_parts = own.longest > 0 && has_parts && !own.has_parts;
    const bool lacks_ends = kind == kText && has_ends && !own.has_ends;
    if (!lacks_length && !lacks_parts && !lacks_ends) continue;
    const std::string number = std::to_string(kind);
    const std::string shortest = PatternOf(std::min(longest, kHeadBytes));
    lines += "Sluice.Overlap." + number + ";Engine:81-255,FileSize:0-0,Target:" + number + ";0;" + (lacks_ends ? "EOF-1:" : "") +
             (lacks_length ? PatternOf(longest) : shortest) + (lacks_parts ? "*" + shortest : "") + "\n";
  }
  return lines;
}

}  // namespace sluice::overlap
