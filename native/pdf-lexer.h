// SPDX-License-Identifier: GPL-2.0-only
// The words of a PDF (ISO 32000-2, 7.2 and 7.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice::pdf {

inline constexpr std::string_view kObject = "obj";

enum class Kind : uint8_t { kEnd, kName, kWord, kOpen, kClose, kList, kListEnd, kText, kDigits, kOther };

struct Token {
  Kind kind;
  // As it is written: of a name without its slash; of a word, such as a number; of a text, and of digits, without what is around them.
  std::string_view text;
};

using Tokens = std::vector<Token>;
// No filters, nor what is said of them, have more.
inline constexpr size_t kTokensMost = 512;

class Lexer {
 public:
  Lexer(std::string_view text, size_t at) : text_(text), at_(at) {}

  Token Next();
  void SkipBlanks();

  size_t at() const { return at_; }
  void Return(size_t at) { at_ = at; }

 private:
  std::string_view Letters();
  std::string_view Text();

  const std::string_view text_;
  size_t at_;
};

// Any letter of a name may be two digits behind a `#`.
bool IsName(std::string_view written, std::string_view name);
std::optional<size_t> NumberIn(std::string_view word);

// One value; null: it is passed over. What closes something else than what is open is passed over, as readers do.
void TakeValue(Lexer& lexer, Tokens* tokens);

// Of digits, before this place, where it then begins.
std::string_view DigitsBefore(std::string_view text, size_t& end);

}  // namespace sluice::pdf
