// SPDX-License-Identifier: GPL-2.0-only
// Reads them from left to right; choices become bytes that aren't known, or a gap where they have different lengths.
#include "patterns.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "hex.h"

namespace sluice::patterns {
namespace {

bool IsLetter(uint8_t byte) {
  const int lower = byte | kCase;
  return lower >= 'a' && lower <= 'z';
}

std::optional<uint32_t> NumberOf(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Of `n`, `n-m`, `-m` and `n-`. To libclamav none is no bound.
std::optional<uint32_t> MostOf(std::string_view range) {
  const size_t dash = range.find('-');
  if (dash != std::string_view::npos && dash + 1 == range.size()) return kUnbounded;
  const auto most = NumberOf(dash == std::string_view::npos ? range : range.substr(dash + 1));
  return most == 0U ? kUnbounded : most;
}

// So many bytes, and no other number of them, belong to the part.
std::optional<uint32_t> FewOf(std::string_view range) {
  constexpr uint32_t kFew = 128;
  const auto number = NumberOf(range);
  return number && *number > 0 && *number < kFew ? number : std::nullopt;
}

class Reader {
 public:
  Reader(std::string_view hex, bool any_case) : left_(hex), any_case_(any_case) {}

  std::optional<std::vector<Part>> Read() {
    parts_.emplace_back();
    while (!left_.empty()) {
      if (!ReadOne()) return std::nullopt;
    }
    const bool has_empty = std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.items.empty(); });
    if (has_empty) return std::nullopt;
    return std::move(parts_);
  }

 private:
  bool ReadOne() {
    switch (left_.front()) {
      case '*':
        left_.remove_prefix(1);
        return Begin(kUnbounded);
      case '{': {
        const std::string_view range = Until('}');
        const auto few = has_range_ ? std::nullopt : FewOf(range);
        if (few) {
          parts_.back().items.insert(parts_.back().items.end(), *few, Item{});
          return true;
        }
        has_range_ = true;
        const auto most = MostOf(range);
        return most && Begin(*most);
      }
      case '[': {
        const auto most = MostOf(Until(']'));
        return most && *most != kUnbounded && Gap(*most);
      }
      case '!':
        left_.remove_prefix(1);
        return !left_.empty() && left_.front() == '(' && ReadAlternatives(false);
      case '(':
        return ReadAlternatives(true);
      default:
        return ReadByte();
    }
  }

  bool Begin(uint32_t gap) {
    parts_.emplace_back();
    parts_.back().gap = gap;
    return true;
  }

  bool Gap(uint32_t most) {
    parts_.back().items.push_back({0, 0, most, false});
    return true;
  }

  // What is between the bracket that comes next and this one; empty where there is none, which is no number.
  std::string_view Until(char end) {
    const size_t at = left_.find(end);
    if (at == std::string_view::npos) return {};
    const std::string_view inside = left_.substr(1, at - 1);
    left_.remove_prefix(at + 1);
    return inside;
  }

  bool ReadByte() {
    if (left_.size() < 2) return false;
    Item item;
    for (int digit = 0; digit < 2; digit++) {
      const int shift = digit == 0 ? 4 : 0;
      if (left_[digit] == '?') continue;
      const auto value = DigitOf(left_[digit]);
      if (!value) return false;
      item.value |= static_cast<uint8_t>(*value << shift);
      item.mask |= static_cast<uint8_t>(0xf << shift);
    }
    left_.remove_prefix(2);
    Add(item);
    return true;
  }

  void Add(Item item) {
    if (any_case_ && item.mask == 0xff && IsLetter(item.value)) item.mask &= static_cast<uint8_t>(~kCase);
    item.value &= item.mask;
    parts_.back().items.push_back(item);
  }

  bool ReadAlternatives(bool is_plain) {
    size_t end = 0;
    for (int depth = 0; end < left_.size(); end++) {
      if (left_[end] == '(') depth++;
      if (left_[end] == ')' && --depth == 0) break;
    }
    if (end == left_.size()) return false;
    const std::string_view inside = left_.substr(1, end - 1);
    left_.remove_prefix(end + 1);
    if (is_plain && ReadCases(inside)) return true;
    const auto length = CommonLengthOf(inside);
    // No alternative is longer than all of them together; the end of a line may be two bytes.
    if (!length) return Gap(static_cast<uint32_t>(inside.size() / 2 + 2));
    parts_.back().items.insert(parts_.back().items.end(), *length, Item{});
    return true;
  }

  // The two cases of a letter.
  bool ReadCases(std::string_view inside) {
    constexpr size_t kTwoBytes = 5;
    if (inside.size() != kTwoBytes || inside[2] != '|') return false;
    const auto first = ByteOf(inside.substr(0, 2));
    const auto second = ByteOf(inside.substr(3));
    if (!first || !second || (*first ^ *second) != kCase) return false;
    Add({*first, static_cast<uint8_t>(~kCase)});
    return true;
  }

  // Of all alternatives, in bytes; nothing: they have none, or are no bytes.
  static std::optional<size_t> CommonLengthOf(std::string_view inside) {
    std::optional<size_t> length;
    while (true) {
      const size_t end = std::min(inside.find('|'), inside.size());
      const std::string_view one = inside.substr(0, end);
      const bool are_digits = std::all_of(one.begin(), one.end(), [](char letter) { return letter == '?' || DigitOf(letter); });
      if (!are_digits || one.size() < 2 || one.size() % 2 != 0 || (length && *length != one.size() / 2)) return std::nullopt;
      length = one.size() / 2;
      if (end == inside.size()) return length;
      inside.remove_prefix(end + 1);
    }
  }

  std::string_view left_;
  const bool any_case_;
  // From the first one on that is more than a number of bytes, each begins a part.
  bool has_range_ = false;
  std::vector<Part> parts_;
};

}  // namespace

uint32_t LengthOf(std::span<const Item> items) {
  uint64_t sum = 0;
  for (const Item& item : items) sum += item.length;
  return static_cast<uint32_t>(std::min<uint64_t>(sum, kUnbounded / 2));
}

bool Part::is_uneven() const {
  return std::any_of(items.begin(), items.end(), [](const Item& item) { return !item.is_byte; });
}

std::optional<std::vector<Part>> Read(std::string_view hex, bool any_case) { return Reader(hex, any_case).Read(); }

}  // namespace sluice::patterns
