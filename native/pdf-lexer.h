// SPDX-License-Identifier: GPL-2.0-only
// The words of a PDF (ISO 32000-2, 7.2 and 7.3).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice::pdf {

inline constexpr std::string_view kObject = "obj";
inline constexpr std::string_view kStream = "stream";
inline constexpr std::string_view kBlanks("\0\t\n\f\r ", 6);

enum class Kind : uint8_t { kEnd, kName, kWord, kOpen, kClose, kList, kListEnd, kText, kDigits, kOther };

struct Token {
  Kind kind;
  // As it is written: of a name without its slash; of a word, such as a number; of a text, and of digits, without what is around them.
  std::string_view text;

  bool operator==(const Token&) const = default;
};

using Tokens = std::vector<Token>;
// No filters, nor what is said of them, have more.
inline constexpr size_t kTokensMost = 512;

class Lexer {
 public:
  Lexer(std::string_view text, size_t at) : text_(text), start_(at), at_(at) {}

  Token Next();
  void SkipBlanks();

  size_t at() const { return at_; }
  void Return(size_t at) {
    again_ += at_ - at;
    at_ = at;
  }
  // Bytes, what was returned to as often as it was read.
  size_t read() const { return at_ - start_ + again_; }

 private:
  std::string_view Letters();
  std::string_view Text();

  const std::string_view text_;
  const size_t start_;
  size_t at_;
  size_t again_ = 0;
};

// How much of a document is read altogether: values may hold each other, and be named again and again.
class Allowance {
 public:
  explicit Allowance(std::string_view text) : text_(text), left_(4 * text.size() + (1 << 20)) {}

  // What is beyond the allowance isn't there.
  Lexer At(size_t at) const { return Lexer(text_.substr(0, at + std::min(left_, text_.size() - at)), at); }
  void Spend(size_t bytes) { left_ -= std::min(left_, bytes); }
  bool is_spent() const { return left_ == 0; }

 private:
  const std::string_view text_;
  size_t left_;
};

// Any letter of a name may be two digits behind a `#`.
bool IsName(std::string_view written, std::string_view name);
std::optional<size_t> NumberIn(std::string_view word);

// One value; null: it is passed over. What closes something else than what is open is passed over, as readers do.
void TakeValue(Lexer& lexer, Tokens* tokens);

// Of digits, before this place, where it then begins.
std::string_view DigitsBefore(std::string_view text, size_t& end);

}  // namespace sluice::pdf
