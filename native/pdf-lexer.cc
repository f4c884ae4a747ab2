// SPDX-License-Identifier: GPL-2.0-only
#include "pdf-lexer.h"

#include <algorithm>

#include "hex.h"

namespace sluice::pdf {
namespace {

constexpr std::string_view kNoLetters("\0\t\n\f\r ()<>[]{}/%", 16);

}  // namespace

bool IsName(std::string_view written, std::string_view name) {
  if (written.find('#') == written.npos) return written == name;
  for (const char letter : name) {
    if (written.empty()) return false;
    char read = written[0];
    size_t taken = 1;
    if (read == '#' && written.size() > 2) {
      if (const std::optional<uint8_t> byte = ByteOf(written.substr(1))) {
        read = static_cast<char>(*byte);
        taken = 3;
      }
    }
    if (read != letter) return false;
    written.remove_prefix(taken);
  }
  return written.empty();
}

std::optional<size_t> NumberIn(std::string_view word) {
  constexpr size_t kDigitsMost = 10;
  if (word.starts_with('+')) word.remove_prefix(1);
  if (word.empty() || word.size() > kDigitsMost) return std::nullopt;
  size_t number = 0;
  for (const char letter : word) {
    if (letter < '0' || letter > '9') return std::nullopt;
    number = number * 10 + static_cast<size_t>(letter - '0');
  }
  return number;
}

Token Lexer::Next() {
  SkipBlanks();
  if (at_ >= text_.size()) return {Kind::kEnd, {}};
  const char first = text_[at_++];
  if (first == '/') return {Kind::kName, Letters()};
  if (first == '[') return {Kind::kList, {}};
  if (first == ']') return {Kind::kListEnd, {}};
  if (first == '(') return {Kind::kText, Text()};
  if (first == '<' || first == '>') {
    if (at_ < text_.size() && text_[at_] == first) {
      at_++;
      return {first == '<' ? Kind::kOpen : Kind::kClose, {}};
    }
    if (first == '>') return {Kind::kOther, {}};
    const size_t start = at_;
    const size_t end = std::min(text_.find('>', at_), text_.size());
    at_ = std::min(end + 1, text_.size());
    return {Kind::kDigits, text_.substr(start, end - start)};
  }
  at_--;
  const std::string_view word = Letters();
  if (word.empty()) at_++;
  return {word.empty() ? Kind::kOther : Kind::kWord, word};
}

void Lexer::SkipBlanks() {
  while (at_ < text_.size()) {
    if (text_[at_] == '%') at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
    else if (kBlanks.find(text_[at_]) != kBlanks.npos) at_++;
    else return;
  }
}

std::string_view Lexer::Letters() {
  const size_t start = at_;
  at_ = std::min(text_.find_first_of(kNoLetters, at_), text_.size());
  return text_.substr(start, at_ - start);
}

std::string_view Lexer::Text() {
  const size_t start = at_;
  size_t depth = 1;
  for (; at_ < text_.size() && depth > 0; at_++) {
    if (text_[at_] == '\\') at_++;
    else if (text_[at_] == '(') depth++;
    else if (text_[at_] == ')') depth--;
  }
  at_ = std::min(at_, text_.size());
  return text_.substr(start, at_ - start - (depth == 0 ? 1 : 0));
}

void TakeValue(Lexer& lexer, Tokens* tokens) {
  std::vector<Kind> open;
  do {
    const size_t before = lexer.at();
    const Token token = lexer.Next();
    if (token.kind == Kind::kEnd) return;
    // A key without a value.
    if (open.empty() && token.kind == Kind::kClose) return lexer.Return(before);
    if (tokens != nullptr && tokens->size() <= kTokensMost) tokens->push_back(token);
    if (token.kind == Kind::kOpen || token.kind == Kind::kList) open.push_back(token.kind);
    const Kind closed = token.kind == Kind::kClose ? Kind::kOpen : Kind::kList;
    if ((token.kind == Kind::kClose || token.kind == Kind::kListEnd) && !open.empty() && open.back() == closed) open.pop_back();
  } while (!open.empty());
  // A reference is three words.
  const size_t before = lexer.at();
  if (tokens == nullptr || tokens->empty() || tokens->back().kind != Kind::kWord) return;
  const Token generation = lexer.Next();
  const Token sign = lexer.Next();
  if (generation.kind != Kind::kWord || sign.kind != Kind::kWord || sign.text != "R") return lexer.Return(before);
  tokens->push_back(generation);
  tokens->push_back(sign);
}

std::string_view DigitsBefore(std::string_view text, size_t& end) {
  constexpr size_t kMost = 10;
  size_t last = end;
  while (last > 0 && end - last < kMost && kBlanks.find(text[last - 1]) != kBlanks.npos) last--;
  size_t first = last;
  while (first > 0 && last - first < kMost && text[first - 1] >= '0' && text[first - 1] <= '9') first--;
  end = first;
  return text.substr(first, last - first);
}

}  // namespace sluice::pdf
