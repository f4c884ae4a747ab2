// SPDX-License-Identifier: GPL-2.0-only
#include "pdf-objects.h"

#include <algorithm>
#include <utility>

#include "pdf-lexer.h"

namespace sluice::pdf {
namespace {

struct Named {
  std::string_view name;
  Filter filter;
};

constexpr Named kFilters[] = {
    {"ASCIIHexDecode", Filter::kHex},     {"AHx", Filter::kHex},
    {"ASCII85Decode", Filter::kBase85},   {"A85", Filter::kBase85},
    {"RunLengthDecode", Filter::kRuns},   {"RL", Filter::kRuns},
    {"LZWDecode", Filter::kLzw},          {"LZW", Filter::kLzw},
    {"FlateDecode", Filter::kDeflated},   {"Fl", Filter::kDeflated},
    {"DCTDecode", Filter::kPicture},      {"DCT", Filter::kPicture},
    {"CCITTFaxDecode", Filter::kPicture}, {"CCF", Filter::kPicture},
    {"JBIG2Decode", Filter::kPicture},    {"JPXDecode", Filter::kPicture},
};

Filter FilterOf(std::string_view written) {
  const auto found = std::find_if(std::begin(kFilters), std::end(kFilters), [written](const Named& one) { return IsName(written, one.name); });
  return found == std::end(kFilters) ? Filter::kOther : found->filter;
}

// What a dictionary says of one filter.
struct Parameters {
  size_t predictor = 1;
  size_t colors = 1;
  size_t bits = 8;
  size_t columns = 1;
  size_t early = 1;
};

// What a dictionary says of its stream.
struct Said {
  Tokens filters;
  Tokens parameters;
  Tokens length;
};

class Document {
 public:
  Document(std::string_view text, size_t most) : text_(text), most_(most), allowance_(text) {}

  Objects Read() {
    for (size_t at = text_.find(kObject); at != text_.npos && objects_.with_streams.size() <= most_; at = text_.find(kObject, at + 1)) {
      if (at >= 3 && text_.substr(at - 3, 3) == "end") continue;
      if (allowance_.is_spent()) break;
      ReadAt(at + kObject.size());
    }
    // The last one may have been cut.
    if (allowance_.is_spent()) objects_.is_too_much = true;
    return std::move(objects_);
  }

 private:
  void ReadAt(size_t begin) {
    Lexer lexer = allowance_.At(begin);
    if (lexer.Next().kind == Kind::kOpen) ReadDictionary(lexer, begin);
    allowance_.Spend(lexer.read());
  }

  void ReadDictionary(Lexer& lexer, size_t begin) {
    Said said;
    bool is_said_twice = false;
    while (true) {
      const size_t before = lexer.at();
      const Token token = lexer.Next();
      if (token.kind == Kind::kEnd) return;
      if (token.kind == Kind::kClose) break;
      // It doesn't close.
      if (token.kind == Kind::kWord && (token.text == kStream || token.text == "endobj")) {
        lexer.Return(before);
        break;
      }
      if (token.kind != Kind::kName) continue;
      Tokens* const tokens = ForKey(said, token.text);
      Tokens taken;
      TakeValue(lexer, tokens == nullptr ? nullptr : &taken);
      if (tokens == nullptr) continue;
      is_said_twice = is_said_twice || (tokens != &said.length && !tokens->empty() && *tokens != taken);
      *tokens = std::move(taken);
    }
    lexer.SkipBlanks();
    const size_t word = lexer.at();
    if (!text_.substr(word).starts_with(kStream)) return;
    const size_t behind = word + kStream.size();
    size_t start = std::min(text_.find_first_of("\r\n", behind), text_.size());
    allowance_.Spend(start - behind);
    const bool is_odd = start != behind;
    start += text_.substr(start).starts_with("\r\n") ? 2 : 1;
    if (start > text_.size()) return;
    Object object{text_.substr(begin, word - begin), start, 0, {}, is_odd, is_said_twice};
    size_t before_words = begin - kObject.size();
    object.generation = static_cast<uint32_t>(NumberIn(DigitsBefore(text_, before_words)).value_or(0));
    object.number = static_cast<uint32_t>(NumberIn(DigitsBefore(text_, before_words)).value_or(0));
    Undo(said, object);
    auto& known = objects_.with_streams;
    const bool is_known = !known.empty() && known.back().start == start && known.back().steps == object.steps && !object.is_foreign;
    if (!is_known) known.push_back(std::move(object));
  }

  static Tokens* ForKey(Said& said, std::string_view key) {
    if (IsName(key, "Filter")) return &said.filters;
    if (IsName(key, "DecodeParms") || IsName(key, "DP")) return &said.parameters;
    if (IsName(key, "Length")) return &said.length;
    return nullptr;
  }

  // Values that stand elsewhere take the place of what refers to them.
  bool Resolve(Tokens& tokens, bool& is_unique) {
    constexpr int kDeepest = 8;
    for (int depth = 0; depth < kDeepest; depth++) {
      Tokens resolved;
      bool has_changed = false;
      for (size_t at = 0; at < tokens.size(); at++) {
        const bool is_reference = at + 2 < tokens.size() && tokens[at + 2].kind == Kind::kWord && tokens[at + 2].text == "R";
        const std::optional<size_t> number = is_reference && tokens[at].kind == Kind::kWord ? NumberIn(tokens[at].text) : std::nullopt;
        if (!number) {
          resolved.push_back(tokens[at]);
          continue;
        }
        if (!TakeObject(*number, resolved, is_unique)) return false;
        has_changed = true;
        at += 2;
      }
      tokens = std::move(resolved);
      if (tokens.size() > kTokensMost) return false;
      if (!has_changed) return true;
    }
    return false;
  }

  // False: there is none here. It may be in a stream of objects.
  bool TakeObject(size_t number, Tokens& tokens, bool& is_unique) {
    if (!is_listed_) List();
    auto found = std::ranges::lower_bound(list_, number, {}, &Place::number);
    if (found == list_.end() || found->number != number || allowance_.is_spent()) return false;
    std::optional<Tokens> first;
    for (; found != list_.end() && found->number == number; ++found) {
      Tokens value;
      Lexer lexer = allowance_.At(found->at);
      TakeValue(lexer, &value);
      allowance_.Spend(lexer.read());
      is_unique = is_unique && (!first || *first == value);
      first = std::move(value);
    }
    tokens.insert(tokens.end(), first->begin(), first->end());
    return true;
  }

  void List() {
    constexpr size_t kMost = 1 << 20;
    is_listed_ = true;
    for (size_t at = text_.find(kObject); at != text_.npos; at = text_.find(kObject, at + 1)) {
      if (list_.size() == kMost) {
        objects_.is_too_much = true;
        break;
      }
      size_t end = at;
      DigitsBefore(text_, end);
      const std::optional<size_t> number = NumberIn(DigitsBefore(text_, end));
      if (number) list_.push_back({*number, at + kObject.size()});
    }
    std::ranges::stable_sort(list_, {}, &Place::number);
  }

  void Undo(Said& said, Object& object) {
    bool is_unique = true;
    if (Resolve(said.length, is_unique) && said.length.size() == 1) object.length = NumberIn(said.length[0].text).value_or(0);
    is_unique = true;
    object.is_elsewhere = std::ranges::any_of(said.filters, [](const Token& token) { return token.kind == Kind::kWord && token.text == "R"; });
    const bool is_resolved = Resolve(said.filters, is_unique) && Resolve(said.parameters, is_unique);
    if (!is_resolved || !is_unique) object.is_foreign = true;
    const std::vector<std::optional<Parameters>> parameters = ParametersIn(said.parameters, object.is_foreign);
    const bool is_list = !said.filters.empty() && said.filters[0].kind == Kind::kList;
    constexpr size_t kStepsMost = 16;
    size_t index = 0;
    for (const Token& token : said.filters) {
      if (object.steps.size() > kStepsMost) break;
      if (token.kind == Kind::kName && (is_list || index == 0)) AddStep(token.text, index++, parameters, object);
    }
    if (object.steps.size() > kStepsMost) object.is_foreign = true;
    object.is_odd = object.is_odd || (object.steps.empty() && !said.filters.empty());
  }

  // Of one filter, or of each in a list.
  std::vector<std::optional<Parameters>> ParametersIn(const Tokens& tokens, bool& is_foreign) {
    std::vector<std::optional<Parameters>> all;
    for (size_t at = 0; at < tokens.size(); at++) {
      if (tokens[at].kind == Kind::kWord) all.push_back(std::nullopt);
      if (tokens[at].kind != Kind::kOpen) continue;
      Parameters parameters;
      for (at++; at < tokens.size() && tokens[at].kind != Kind::kClose; at++) {
        size_t* const number = tokens[at].kind == Kind::kName ? ForParameter(parameters, tokens[at].text) : nullptr;
        if (number == nullptr || at + 1 >= tokens.size()) continue;
        const std::optional<size_t> read = NumberIn(tokens[at + 1].text);
        is_foreign = is_foreign || !read;
        *number = read.value_or(*number);
        at++;
      }
      all.push_back(parameters);
    }
    return all;
  }

  static size_t* ForParameter(Parameters& parameters, std::string_view key) {
    if (IsName(key, "Predictor")) return &parameters.predictor;
    if (IsName(key, "Colors")) return &parameters.colors;
    if (IsName(key, "BitsPerComponent")) return &parameters.bits;
    if (IsName(key, "Columns")) return &parameters.columns;
    if (IsName(key, "EarlyChange")) return &parameters.early;
    return nullptr;
  }

  static void AddStep(std::string_view name, size_t index, const std::vector<std::optional<Parameters>>& all, Object& object) {
    // What isn't encrypted has this one, too: it does nothing there.
    if (IsName(name, "Crypt")) {
      object.has_own_cipher = true;
      return;
    }
    Step step{FilterOf(name), {}};
    const std::optional<Parameters> parameters = index < all.size() ? all[index] : all.size() == 1 ? all[0] : std::nullopt;
    if (parameters && (step.filter == Filter::kLzw || step.filter == Filter::kDeflated)) {
      step.row = RowOf(parameters->predictor, parameters->colors, parameters->bits, parameters->columns);
      step.is_early = parameters->early != 0;
      // Readers differ.
      if (step.filter == Filter::kLzw && parameters->early > 1) object.is_foreign = true;
    }
    object.steps.push_back(step);
  }

  struct Place {
    size_t number;
    size_t at;
  };

  const std::string_view text_;
  const size_t most_;
  Allowance allowance_;
  Objects objects_;
  bool is_listed_ = false;
  std::vector<Place> list_;
};

}  // namespace

std::optional<Row> RowOf(size_t predictor, size_t colors, size_t bits, size_t columns) {
  constexpr size_t kTiff = 2;
  constexpr size_t kPng = 10;
  // No number that makes sense is larger.
  constexpr size_t kMost = 999'999;
  if (predictor < kTiff) return std::nullopt;
  const size_t pixel_bits = std::min(colors, kMost) * std::min(bits, kMost);
  return Row{std::max<size_t>((pixel_bits * std::min(columns, kMost) + 7) / 8, 1), std::max<size_t>(pixel_bits / 8, 1), predictor >= kPng};
}

Objects ReadObjects(std::string_view text, size_t most) { return Document(text, most).Read(); }

}  // namespace sluice::pdf
