// SPDX-License-Identifier: GPL-2.0-only
// What a part of an expression may begin with is known too wide rather than too narrow: a place more is tried in vain, a place less would be a match that is missed.
#include "first-pairs.h"

#include <array>
#include <bitset>
#include <memory>
#include <string_view>

#include "rarity.h"

namespace sluice::regexes {
namespace {

constexpr uint32_t kExtended = 0x80;  // PCRE2_EXTENDED
// Of the places of a text, about, one is tried where there are so many. More of them are better tried without looking for them.
constexpr size_t kPlacesForOne = 16;

constexpr size_t kBytes = 256;
using Bytes = std::bitset<kBytes>;

// How what a part matches begins: it may be nothing, one byte, or these two and more.
struct Beginning {
  bool is_empty = false;
  Bytes alone;
  std::array<Bytes, kBytes> second{};  // by the first

  Bytes First() const {
    Bytes first = alone;
    for (size_t byte = 0; byte < second.size(); byte++) first[byte] = first[byte] || second[byte].any();
    return first;
  }

  void Or(const Beginning& other) {
    is_empty |= other.is_empty;
    alone |= other.alone;
    for (size_t byte = 0; byte < second.size(); byte++) second[byte] |= other.second[byte];
  }

  // What comes behind it.
  void Then(const Beginning& next) {
    const Bytes first = next.First();
    for (size_t byte = 0; byte < second.size(); byte++) {
      if (alone[byte]) second[byte] |= first;
      if (is_empty) second[byte] |= next.second[byte];
    }
    if (!next.is_empty) alone.reset();
    if (is_empty) alone |= next.alone;
    is_empty = is_empty && next.is_empty;
  }
};

// Too large for the stack of a scan thread where parts are nested.
using Part = std::unique_ptr<Beginning>;

Part Nothing() {
  auto part = std::make_unique<Beginning>();
  part->is_empty = true;
  return part;
}

Part One(const Bytes& of) {
  auto part = std::make_unique<Beginning>();
  part->alone = of;
  return part;
}

Bytes All() { return Bytes().set(); }

// Whatever it is, of whatever length.
Part Anything() {
  Part part = Nothing();
  part->alone = All();
  part->second.fill(All());
  return part;
}

bool IsDigit(char one) { return one >= '0' && one <= '9'; }
bool IsLetter(char one) { return (one | 0x20) >= 'a' && (one | 0x20) <= 'z'; }
bool IsHexDigit(char one) { return IsDigit(one) || (IsLetter(one) && (one | 0x20) <= 'f'); }

Bytes Cases(uint8_t byte) {
  Bytes both;
  both[byte] = true;
  if (IsLetter(static_cast<char>(byte))) both[byte ^ 0x20] = true;
  return both;
}


class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  // Null: it has what isn't known here.
  Part Whole() {
    Part part = Alternatives(0);
    return is_known_ && at_ == pattern_.size() ? std::move(part) : nullptr;
  }

 private:
  static constexpr size_t kDeepest = 32;

  bool IsAtEnd() const { return !is_known_ || at_ >= pattern_.size(); }
  char Peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  bool Take(std::string_view text) {
    if (IsAtEnd() || pattern_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }
  Part Unknown() {
    is_known_ = false;
    return Anything();
  }

  Part Alternatives(size_t depth) {
    if (depth > kDeepest) return Unknown();
    Part all = Sequence(depth);
    while (!IsAtEnd() && Take("|")) all->Or(*Sequence(depth));
    return all;
  }

  Part Sequence(size_t depth) {
    Part whole = Nothing();
    while (!IsAtEnd() && Peek() != '|' && Peek() != ')') {
      Part part = Repeated(Atom(depth));
      whole->Then(*part);
    }
    return whole;
  }

  // `{` is itself where no version of PCRE2 takes it for a quantifier.
  bool IsQuantifier() const { return Peek() == '{' && (IsDigit(Peek(1)) || Peek(1) == ',' || Peek(1) == ' ' || Peek(1) == '\t'); }

  Part Repeated(Part part) {
    bool is_repeated = false;
    bool may_be_none = false;
    if (Take("*")) {
      is_repeated = may_be_none = true;
    } else if (Take("+")) {
      is_repeated = true;
    } else if (Take("?")) {
      may_be_none = true;
    } else if (IsQuantifier()) {
      ++at_;
      const size_t least = at_;
      while (IsDigit(Peek())) ++at_;
      may_be_none = pattern_.substr(least, at_ - least).find_first_not_of('0') == std::string_view::npos;
      if (at_ == least) return Unknown();
      if (Take(",")) {
        while (IsDigit(Peek())) ++at_;
      }
      if (!Take("}")) return Unknown();
      is_repeated = true;
    } else {
      return part;
    }
    if (Peek() == '?' || Peek() == '+') ++at_;
    if (is_repeated) {
      Beginning more = *part;
      more.is_empty = true;
      part->Then(more);
    }
    part->is_empty |= may_be_none;
    return part;
  }

  Part Atom(size_t depth) {
    const char one = pattern_[at_++];
    switch (one) {
      case '^':
      case '$':
        return Nothing();
      case '.':
        return One(All());
      case '[':
        return One(Class());
      case '(':
        return Group(depth);
      case '\\':
        return Escape();
      case '{':
        --at_;
        if (IsQuantifier()) return Unknown();
        ++at_;
        break;
      case '*':
      case '+':
      case '?':
        return Unknown();
      default:
        break;
    }
    return One(Cases(static_cast<uint8_t>(one)));
  }

  // What looks around matches nothing by itself.
  Part Group(size_t depth) {
    bool looks = false;
    if (Take("?P=")) {
      while (!IsAtEnd() && Peek() != ')') ++at_;
      return Take(")") ? Anything() : Unknown();
    }
    if (Take("?P<")) {
      while (!IsAtEnd() && Peek() != '>') ++at_;
      if (!Take(">")) return Unknown();
    } else if (Take("?=") || Take("?!") || Take("?<=") || Take("?<!")) {
      looks = true;
    } else if (Take("?")) {
      if (!Take(">")) {
        // Of these options `x` alone changes what the pattern's characters are.
        while (IsLetter(Peek()) || Peek() == '-' || Peek() == '^') {
          if (pattern_[at_++] == 'x') return Unknown();
        }
        if (Take(")")) return Nothing();
        if (!Take(":")) return Unknown();
      }
    } else if (Peek() == '*') {
      return Unknown();
    }
    Part part = Alternatives(depth + 1);
    if (!Take(")")) return Unknown();
    return looks ? Nothing() : std::move(part);
  }

  Part Escape() {
    const char one = Peek();
    ++at_;
    // A group, or a byte.
    if (IsDigit(one)) return Anything();
    switch (one) {
      case 'b':
      case 'B':
      case 'A':
      case 'Z':
      case 'z':
        return Nothing();
      case 'R':
        return Anything();
      default:
        return One(EscapedBytes(one));
    }
  }

  // Of an escape that stands for one byte, in a class and without.
  Bytes EscapedBytes(char one) {
    Bytes bytes;
    switch (one) {
      case 'd':
        for (char digit = '0'; digit <= '9'; ++digit) bytes[static_cast<uint8_t>(digit)] = true;
        return bytes;
      case 'w':
        for (size_t byte = 0; byte < bytes.size(); ++byte) {
          const char one_byte = static_cast<char>(byte);
          bytes[byte] = one_byte == '_' || byte >= 0x80 || IsDigit(one_byte) || IsLetter(one_byte);
        }
        return bytes;
      case 's':
        for (const char space : std::string_view("\t\n\v\f\r ")) bytes[static_cast<uint8_t>(space)] = true;
        return bytes;
      case 'D':
      case 'S':
      case 'W':
      case 'h':
      case 'H':
      case 'v':
      case 'V':
        return All();
      default:
        return Cases(EscapedByte(one));
    }
  }

  uint8_t EscapedByte(char one) {
    switch (one) {
      case 'a':
        return '\a';
      case 'e':
        return '\x1b';
      case 'f':
        return '\f';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x': {
        if (Peek() == '{') is_known_ = false;
        uint8_t byte = 0;
        for (int digits = 0; digits < 2 && IsHexDigit(Peek()); ++digits, ++at_) {
          const char digit = Peek();
          byte = static_cast<uint8_t>(byte * 16 + (IsDigit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10));
        }
        return byte;
      }
      default:
        if (IsLetter(one) || IsDigit(one)) is_known_ = false;
        return static_cast<uint8_t>(one);
    }
  }

  // Behind its `[`. All bytes for one that says what it doesn't match.
  Bytes Class() {
    Bytes bytes;
    const bool is_negated = Take("^");
    bool is_first = true;
    while (!IsAtEnd() && (is_first || Peek() != ']')) {
      is_first = false;
      const std::optional<uint8_t> from = ClassMember(bytes);
      if (!from || Peek() != '-' || Peek(1) == ']') continue;
      ++at_;
      const std::optional<uint8_t> to = ClassMember(bytes);
      if (!to) {
        is_known_ = false;
        continue;
      }
      for (size_t byte = *from; byte <= *to; ++byte) bytes |= Cases(static_cast<uint8_t>(byte));
    }
    if (!Take("]")) is_known_ = false;
    return is_negated ? All() : bytes;
  }

  // Nothing: it is more than a byte, so no range begins or ends with it.
  std::optional<uint8_t> ClassMember(Bytes& bytes) {
    const char one = Peek();
    ++at_;
    // What has a name (`[:alpha:]`).
    if (one == '[' && (Peek() == ':' || Peek() == '.' || Peek() == '=')) is_known_ = false;
    uint8_t byte = static_cast<uint8_t>(one);
    if (one == '\\') {
      const char escaped = Peek();
      ++at_;
      if (std::string_view("dwsDSWhHvV").find(escaped) != std::string_view::npos) {
        bytes |= EscapedBytes(escaped);
        return std::nullopt;
      }
      byte = EscapedByte(escaped);
    }
    bytes |= Cases(byte);
    return byte;
  }

  const std::string_view pattern_;
  size_t at_ = 0;
  bool is_known_ = true;
};

}  // namespace

std::optional<FirstPairs> FirstPairs::Of(std::string_view pattern, uint32_t options) {
  if ((options & (kExtended | kAnchored)) != 0) return std::nullopt;
  const Part whole = Parser(pattern).Whole();
  if (!whole || whole->is_empty || whole->alone.any()) return std::nullopt;
  constexpr size_t kRarest = 14;
  size_t frequency = 0;
  FirstPairs made;
  for (size_t first = 0; first < kBytes; ++first) {
    for (size_t second = 0; second < kBytes; ++second) {
      if (!whole->second[first][second]) continue;
      made.seconds_[first][second / kBits] |= uint64_t{1} << (second % kBits);
      frequency += size_t{1} << (kRarest - stretches::kRarity[first] - stretches::kRarity[second]);
    }
  }
  if (frequency * kPlacesForOne > size_t{1} << kRarest) return std::nullopt;
  return made;
}

}  // namespace sluice::regexes
