// SPDX-License-Identifier: GPL-2.0-only
#include "pdf-scripts.h"

#include "pdf-encryption.h"
#include "pdf-lexer.h"

namespace sluice::pdf {
namespace {

class Reader {
 public:
  Reader(std::string_view text, size_t most) : text_(text), most_(most), allowance_(text) {}

  Scripts Read() {
    constexpr std::string_view kScript = "JS";
    for (size_t at = text_.find('/'); at != text_.npos && !IsFull(); at = text_.find('/', at + 1)) {
      if (!text_.substr(at + 1).starts_with('J') && !text_.substr(at + 1).starts_with('#')) continue;
      Lexer lexer = allowance_.At(at);
      if (IsName(lexer.Next().text, kScript)) Take(lexer);
      allowance_.Spend(lexer.read());
    }
    for (size_t at = text_.find(kObject); at != text_.npos && !IsFull(); at = text_.find(kObject, at + 1)) {
      Lexer lexer = allowance_.At(at + kObject.size());
      Take(lexer);
      allowance_.Spend(lexer.read());
    }
    scripts_.is_too_much = allowance_.is_spent();
    return std::move(scripts_);
  }

 private:
  bool IsFull() const { return scripts_.texts.size() > most_ || allowance_.is_spent(); }

  void Take(Lexer& lexer) {
    const Token token = lexer.Next();
    if (token.kind == Kind::kDigits || (token.kind == Kind::kText && token.text.find('\\') != token.text.npos)) {
      scripts_.texts.push_back(BytesOf(&token));
    }
  }

  const std::string_view text_;
  const size_t most_;
  Allowance allowance_;
  Scripts scripts_;
};

}  // namespace

Scripts ReadScripts(std::string_view text, size_t texts_max) { return Reader(text, texts_max).Read(); }

}  // namespace sluice::pdf
