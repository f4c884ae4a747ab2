// SPDX-License-Identifier: GPL-2.0-only
#include "pdf-scripts.h"

#include "pdf-lexer.h"

namespace sluice::pdf {
namespace {

constexpr std::string_view kScript = "JS";

class ScriptReader {
 public:
  ScriptReader(std::string_view text, size_t most) : text_(text), most_(most), allowance_(text) {}

  Scripts Read() {
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

// Each object has its own key. Streams are read elsewhere.
class EncryptedReader {
 public:
  EncryptedReader(std::string_view text, const Encryption& encryption, size_t most)
      : text_(text), encryption_(encryption), most_(most), allowance_(text), scripts_{{{}}} {}

  Scripts Read() {
    for (size_t at = text_.find(kObject); at != text_.npos && !IsTooMuch(); at = text_.find(kObject, at + 1)) {
      size_t end = at;
      const std::optional<size_t> generation = NumberIn(DigitsBefore(text_, end));
      const std::optional<size_t> number = NumberIn(DigitsBefore(text_, end));
      if (!number || !generation) continue;
      Lexer lexer = allowance_.At(at + kObject.size());
      ReadObject(lexer, static_cast<uint32_t>(*number), static_cast<uint32_t>(*generation));
      allowance_.Spend(lexer.read());
    }
    scripts_.is_too_much = IsTooMuch();
    return std::move(scripts_);
  }

 private:
  // Of each a digest is made. Documents with as many texts have them in streams.
  static constexpr size_t kTextsMost = 200'000;
  // libclamav looks at nothing that is shorter.
  static constexpr size_t kShortest = 6;

  bool IsTooMuch() const { return count_ > kTextsMost || allowance_.is_spent(); }

  void ReadObject(Lexer& lexer, uint32_t number, uint32_t generation) {
    bool is_script = true;
    for (Token token = lexer.Next(); token.kind != Kind::kEnd && !IsTooMuch(); token = lexer.Next()) {
      if (token.kind == Kind::kWord && (token.text == "endobj" || token.text == "stream" || token.text == kObject)) return;
      if (token.kind == Kind::kText || token.kind == Kind::kDigits) Take(token, is_script, number, generation);
      is_script = token.kind == Kind::kName && IsName(token.text, kScript);
    }
  }

  void Take(const Token& token, bool is_script, uint32_t number, uint32_t generation) {
    const std::vector<uint8_t> bytes = BytesOf(&token);
    if (bytes.size() < kShortest) return;
    count_++;
    std::vector<uint8_t> said = Decrypted(bytes, encryption_, encryption_.text_cipher, number, generation);
    std::vector<uint8_t>& all = scripts_.texts.front();
    all.insert(all.end(), said.begin(), said.end());
    all.push_back('\n');
    if (is_script && scripts_.texts.size() <= most_) scripts_.texts.push_back(std::move(said));
  }

  const std::string_view text_;
  const Encryption& encryption_;
  const size_t most_;
  Allowance allowance_;
  Scripts scripts_;
  size_t count_ = 0;
};

}  // namespace

Scripts ReadEncryptedTexts(std::string_view text, const Encryption& encryption, size_t texts_max) {
  return EncryptedReader(text, encryption, texts_max).Read();
}

Scripts ReadScripts(std::string_view text, size_t texts_max) { return ScriptReader(text, texts_max).Read(); }

}  // namespace sluice::pdf
