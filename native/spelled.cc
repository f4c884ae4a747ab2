// SPDX-License-Identifier: GPL-2.0-only
// By blocks of bytes that have nothing but digits and what may stand between them, or nothing but letters of base64. Texts have few.
#include "spelled.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base64.h"
#include "byte-classes.h"
#include "heads.h"
#include "pieces.h"

namespace sluice::spelled {
namespace {

constexpr size_t kBlock = 32;
// Of letters fewer are enough.
constexpr size_t kHalf = 16;
// What says less are digests, colours and the like.
constexpr uint64_t kLeast = 66;
// Of a block of numbers.
constexpr int kDigitsLeast = 6;

constexpr uint8_t kDigitClasses = 3;

constexpr ByteClasses kSpelling = [] {
  ByteClasses classes;
  const auto add = [&classes](std::string_view bytes, uint8_t bit) {
    for (const char byte : bytes) classes.Add(static_cast<uint8_t>(byte), bit);
  };
  add("0123456789", 1);
  add("ABCDEFabcdef", 2);
  add("\t\r\n", 4);
  add(" $%&'\"()+,-.", 8);
  add("Hh", 16);
  // Those of `Chr`, `0x` and `\u`, brackets, and a line that goes on.
  add("RUWXruwx[\\]_", 32);
  return classes;
}();

constexpr ByteClasses kLetters = [] {
  ByteClasses classes;
  for (unsigned byte = '+'; byte <= 'z'; byte++) {
    const bool is_alpha = (byte >= 'A' && byte <= 'Z') || byte >= 'a';
    if (!is_alpha && (byte < '0' || byte > '9') && byte != '+' && byte != '/') continue;
    classes.Add(static_cast<uint8_t>(byte), static_cast<uint8_t>(1 << ((is_alpha ? byte & 0x5f : byte) >> 4)));
  }
  return classes;
}();

bool IsLetters(Bytes bytes) { return std::all_of(bytes.begin(), bytes.end(), base64::IsLetter); }
bool IsSpelling(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return kSpelling.Of(byte) != 0; });
}
bool IsCandidate(Bytes block) {
  if (IsLetters(block.first(kHalf)) || IsLetters(block.subspan(kHalf))) return true;
  const auto is_digit = [](uint8_t byte) { return (kSpelling.Of(byte) & kDigitClasses) != 0; };
  return IsSpelling(block) && std::count_if(block.begin(), block.end(), is_digit) >= kDigitsLeast;
}

#if defined(__x86_64__)
SLUICE_AVX2 size_t PassOver(Bytes bytes, size_t at) {
  constexpr uint32_t kHalfMask = (1 << kHalf) - 1;
  const __m256i digits = _mm256_set1_epi8(kDigitClasses);
  for (; at + kBlock <= bytes.size(); at += kBlock) {
    const __m256i block = BytesAt(bytes.data() + at);
    const __m256i spelling = ClassesOf(kSpelling, block);
    const uint32_t any = InAny(spelling);
    if (any == UINT32_MAX && __builtin_popcount(InAny(_mm256_and_si256(spelling, digits))) >= kDigitsLeast) return at;
    const uint32_t letters = InAny(ClassesOf(kLetters, block));
    if ((letters & kHalfMask) == kHalfMask || letters >> kHalf == kHalfMask) return at;
  }
  return at;
}
#endif

// The next block that may be a part of a run.
size_t NextBlock(Bytes bytes, size_t at) {
#if defined(__x86_64__)
  if (HasAvx2()) return PassOver(bytes, at);
#endif
  while (at + kBlock <= bytes.size() && !IsCandidate(bytes.subspan(at, kBlock))) at += kBlock;
  return at;
}

constexpr uint8_t kNoDigit = 16;
constexpr std::array<uint8_t, 256> kDigits = [] {
  constexpr std::string_view kAlphabet = "0123456789abcdef";
  std::array<uint8_t, 256> values{};
  values.fill(kNoDigit);
  for (size_t at = 0; at < kAlphabet.size(); at++) {
    values[static_cast<uint8_t>(kAlphabet[at])] = static_cast<uint8_t>(at);
    if (at >= 10) values[static_cast<uint8_t>(kAlphabet[at]) - 0x20U] = static_cast<uint8_t>(at);
  }
  return values;
}();
unsigned ValueOf(uint8_t byte) { return kDigits[byte]; }
bool IsHexAt(Bytes bytes, size_t at) { return at < bytes.size() && ValueOf(bytes[at]) < kNoDigit; }
bool IsDecimalAt(Bytes bytes, size_t at) { return at < bytes.size() && ValueOf(bytes[at]) < 10; }
bool IsAlphaAt(Bytes bytes, size_t at) { return at < bytes.size() && (bytes[at] | 0x20) >= 'a' && (bytes[at] | 0x20) <= 'z'; }

// So many digits; nothing: there are fewer.
std::optional<uint32_t> HexAt(Bytes bytes, size_t at, size_t digits) {
  uint32_t value = 0;
  for (size_t end = at + digits; at < end; at++) {
    if (!IsHexAt(bytes, at)) return std::nullopt;
    value = value << 4 | ValueOf(bytes[at]);
  }
  return value;
}

// Each of the following hands bytes on as long as it is asked to, and returns where they end.

template <typename Put>
size_t ReadDigits(Bytes bytes, size_t at, Put&& put) {
  size_t end = at;
  while (true) {
    for (; at + 1 < bytes.size(); at += 2) {
      const unsigned high = ValueOf(bytes[at]);
      const unsigned low = ValueOf(bytes[at + 1]);
      if (high == kNoDigit || low == kNoDigit) break;
      if (!put(static_cast<uint8_t>(high << 4 | low))) return at;
    }
    end = at;
    size_t next = at;
    while (next < bytes.size() && (bytes[next] == '\n' || bytes[next] == '\r')) next++;
    if (next > at) {
      while (next < bytes.size() && (bytes[next] == ' ' || bytes[next] == '\t')) next++;
    } else if (const std::optional<pieces::Next> cut = pieces::Behind(bytes, at)) {
      next = cut->at;
    }
    if (next == at || !IsHexAt(bytes, next)) return end;
    at = next;
  }
}

// Words that stand at numbers in scripts: Chr, ChrW, [char], [byte].
size_t BehindWords(Bytes bytes, size_t at) {
  constexpr std::string_view kBetween = " \t\r\n,;_\\&+()[]'\"$";
  constexpr std::string_view kWords[] = {"chrw", "chrb", "chr", "char", "byte", "int"};
  while (at < bytes.size()) {
    const bool is_number = bytes[at] == '&' && at + 2 < bytes.size() && (bytes[at + 1] | 0x20) == 'h' && IsHexAt(bytes, at + 2);
    if (is_number) return at;
    const bool is_behind_number = bytes[at] == '.' && at > 0 && bytes[at - 1] == ')';
    if (is_behind_number || kBetween.find(static_cast<char>(bytes[at])) != kBetween.npos) {
      at++;
      continue;
    }
    const auto is_here = [&](std::string_view word) {
      const auto is_same = [](char letter, uint8_t byte) { return letter == static_cast<char>(byte | 0x20); };
      return bytes.size() - at > word.size() && std::equal(word.begin(), word.end(), bytes.begin() + static_cast<ptrdiff_t>(at), is_same);
    };
    const auto word = std::find_if(std::begin(kWords), std::end(kWords), is_here);
    if (word == std::end(kWords)) return at;
    at += word->size();
  }
  return at;
}

struct Number {
  size_t end;
  std::optional<uint8_t> decimal;
  std::optional<uint8_t> hexadecimal;
};
std::optional<Number> NumberAt(Bytes bytes, size_t at) {
  if (at > 0 && IsAlphaAt(bytes, at - 1)) return std::nullopt;
  const bool is_negative = bytes[at] == '-';
  if (is_negative) at++;
  const bool is_prefixed = at + 1 < bytes.size() && ((bytes[at] == '0' && (bytes[at + 1] | 0x20) == 'x') || bytes[at] == '&');
  if (is_prefixed) at += 2;
  uint32_t decimal = 0;
  uint32_t hexadecimal = 0;
  bool is_decimal = !is_prefixed;
  const size_t start = at;
  constexpr size_t kDigitsMost = 3;
  for (; IsHexAt(bytes, at) && at - start <= kDigitsMost; at++) {
    is_decimal = is_decimal && IsDecimalAt(bytes, at);
    decimal = decimal * 10 + ValueOf(bytes[at]);
    hexadecimal = hexadecimal << 4 | ValueOf(bytes[at]);
  }
  const size_t digits = at - start;
  if (digits == 0 || digits > kDigitsMost || IsAlphaAt(bytes, at)) return std::nullopt;
  if (at < bytes.size() && (bytes[at] == '.' || bytes[at] == '(')) return std::nullopt;
  constexpr uint32_t kMost = 255;
  constexpr uint32_t kSigned = 128;
  Number number{at, {}, {}};
  if (is_prefixed && hexadecimal <= kMost) number.decimal = number.hexadecimal = static_cast<uint8_t>(hexadecimal);
  if (is_decimal && decimal <= (is_negative ? kSigned : kMost)) number.decimal = static_cast<uint8_t>(is_negative ? 0 - decimal : decimal);
  if (!is_prefixed && !is_negative && digits == 2) number.hexadecimal = static_cast<uint8_t>(hexadecimal);
  return number.decimal || number.hexadecimal ? std::optional(number) : std::nullopt;
}

template <typename Put>
size_t ReadNumbers(Bytes bytes, size_t at, Put&& put) {
  size_t end = at;
  for (at = BehindWords(bytes, at); at < bytes.size(); at = BehindWords(bytes, end)) {
    const std::optional<Number> number = NumberAt(bytes, at);
    if (!number || !put(*number)) break;
    end = number->end;
  }
  return end;
}

// A wide character is two bytes, the low one first, as scripts put machine code into them.
template <typename Put>
bool PutWide(uint32_t value, Put&& put) {
  return put(static_cast<uint8_t>(value)) && put(static_cast<uint8_t>(value >> 8));
}

bool StandsInAddress(uint8_t byte) {
  constexpr std::string_view kSigns = "@*_+./-";
  return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') || kSigns.find(static_cast<char>(byte)) != kSigns.npos;
}

template <typename Put>
size_t ReadPercent(Bytes bytes, size_t at, Put&& put) {
  while (at < bytes.size()) {
    const uint8_t byte = bytes[at];
    if (const std::optional<uint32_t> value = byte == '%' ? HexAt(bytes, at + 1, 2) : std::nullopt) {
      if (!put(static_cast<uint8_t>(*value))) return at;
      at += 3;
    } else if (const std::optional<uint32_t> wide = byte == '%' && Has(bytes, at + 1, "u") ? HexAt(bytes, at + 2, 4) : std::nullopt) {
      if (!PutWide(*wide, put)) return at;
      at += 6;
    } else if (const std::optional<pieces::Next> cut = pieces::Behind(bytes, at); cut && cut->at < bytes.size() && bytes[cut->at] == '%') {
      at = cut->at;
    } else {
      if (!StandsInAddress(byte) || !put(byte)) return at;
      at++;
    }
  }
  return at;
}

// What stands behind a backslash: a character, and how long its spelling is. Nothing: it is a character that is said by its letter.
struct Escape {
  uint32_t value;
  size_t length;
};
std::optional<Escape> EscapeAt(Bytes bytes, size_t at) {
  if (Has(bytes, at, "x") || Has(bytes, at, "u")) {
    const size_t digits = bytes[at] == 'u' ? 4 : 2;
    const std::optional<uint32_t> value = HexAt(bytes, at + 1, digits);
    return value ? std::optional(Escape{*value, 1 + digits}) : std::nullopt;
  }
  uint32_t value = 0;
  size_t length = 0;
  for (; length < 3 && IsDecimalAt(bytes, at + length) && bytes[at + length] < '8'; length++) value = value << 3 | (bytes[at + length] & 7U);
  return length > 0 ? std::optional(Escape{value & 0xff, length}) : std::nullopt;
}

template <typename Put>
size_t ReadEscapes(Bytes bytes, size_t at, Put&& put) {
  constexpr std::string_view kEnds = "\"'`\n";
  constexpr std::string_view kNames = "nrtabfv";
  constexpr std::string_view kNamed = "\n\r\t\a\b\f\v";
  while (at < bytes.size()) {
    const uint8_t byte = bytes[at];
    if (kEnds.find(static_cast<char>(byte)) != kEnds.npos) {
      const std::optional<pieces::Next> cut = pieces::Behind(bytes, at);
      if (!cut || cut->at >= bytes.size()) return at;
      at = cut->at;
      continue;
    }
    if (byte != '\\') {
      if (!put(byte)) return at;
      at++;
      continue;
    }
    if (const std::optional<Escape> escape = EscapeAt(bytes, at + 1)) {
      // A letter of another script is none of a byte.
      if (escape->value > 0xff || !put(static_cast<uint8_t>(escape->value))) return at;
      at += 1 + escape->length;
      continue;
    }
    const size_t name = at + 1 < bytes.size() ? kNames.find(static_cast<char>(bytes[at + 1])) : kNames.npos;
    if (at + 1 < bytes.size() && !put(name == kNames.npos ? bytes[at + 1] : static_cast<uint8_t>(kNamed[name]))) return at;
    at += 2;
  }
  return bytes.size();
}

// Where what reaches into a block may begin, not before `from`.
template <typename May>
size_t BackFrom(Bytes bytes, size_t block, size_t from, May may) {
  while (block > from && may(bytes[block - 1])) block--;
  return block;
}

// Of bytes that are said.
class Counter {
 public:
  bool operator()(uint8_t byte) {
    head_.Put(byte);
    sum_ = sum_ * 31 + byte;
    return ++count_ > 0;
  }
  bool is_enough() const { return count_ >= kLeast; }
  bool is_known() const { return head_.IsKnown(); }
  bool IsSameAs(const Counter& other) const { return count_ == other.count_ && sum_ == other.sum_; }

 private:
  heads::Head head_;
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
};

class Sink {
 public:
  explicit Sink(streams::Output& output) : output_(output) {}
  bool operator()(uint8_t byte) {
    bytes_[count_++] = byte;
    return count_ < bytes_.size() || Flush();
  }
  bool Flush() {
    const bool has_room = output_.Put(Bytes(bytes_).first(count_));
    count_ = 0;
    return has_room;
  }

 private:
  streams::Output& output_;
  std::array<uint8_t, 4096> bytes_;
  size_t count_ = 0;
};

}  // namespace

std::optional<Run> Finder::Next() {
  if (also_) return std::exchange(also_, std::nullopt);
  for (size_t block = NextBlock(bytes_, next_); block + kBlock <= bytes_.size(); block = NextBlock(bytes_, next_)) {
    const std::optional<Run> run = ReadAt(block);
    read_ = std::max(read_, block + kBlock);
    // Blocks are the same whoever looks for them.
    next_ = read_ / kBlock * kBlock;
    if (run) return run;
  }
  next_ = bytes_.size();
  return std::nullopt;
}

std::optional<Run> Finder::ReadAt(size_t block) {
  const Bytes there = bytes_.subspan(block, kBlock);
  for (const size_t half : {size_t{0}, kHalf}) {
    const std::optional<Run> run = IsLetters(there.subspan(half, kHalf)) ? ReadLetters(block + half) : std::nullopt;
    if (run) return run;
  }
  if (read_ > block || !IsSpelling(there)) return std::nullopt;
  const std::string_view text = TextOf(there);
  const size_t percent = text.find('%');
  if (percent != text.npos && (IsHexAt(there, percent + 1) || Has(there, percent + 1, "u"))) return ReadString(block + percent, Form::kPercent);
  const size_t backslash = text.find('\\');
  if (backslash != text.npos && EscapeAt(there, backslash + 1)) return ReadString(block + backslash, Form::kEscapes);
  const size_t brace = text.rfind('{');
  return ReadNumbers(brace == text.npos ? block : block + brace + 1);
}

std::optional<Run> Finder::ReadLetters(size_t half) {
  size_t start = BackFrom(bytes_, half, read_, base64::IsLetter);
  if (Has(bytes_, start, "0x")) start += 2;
  size_t end = half + kHalf;
  while (end < bytes_.size() && base64::IsLetter(bytes_[end])) end++;
  const Bytes letters = bytes_.subspan(start, end - start);
  read_ = end;
  if (!std::all_of(letters.begin(), letters.end(), [](uint8_t letter) { return ValueOf(letter) < kNoDigit; })) {
    return base64::SaysItself(letters) ? std::optional(Run{Form::kBase64, start, end, true}) : std::nullopt;
  }
  Counter counter;
  read_ = ReadDigits(bytes_, start, counter);
  // As pages of a PDF have their words.
  const bool is_word = start > 0 && bytes_[start - 1] == '<' && Has(bytes_, read_, ">");
  return counter.is_enough() && !is_word ? std::optional(Run{Form::kDigits, start, read_, counter.is_known()}) : std::nullopt;
}

// In quotes, or as an address has it.
std::optional<Run> Finder::ReadString(size_t sign, Form form) {
  static constexpr std::string_view kQuotes = "\"'`";
  const auto is_quote = [](uint8_t byte) { return kQuotes.find(static_cast<char>(byte)) != kQuotes.npos; };
  const auto may = [&](uint8_t byte) { return form == Form::kPercent ? byte == '%' || StandsInAddress(byte) : !is_quote(byte) && byte != '\n'; };
  const size_t start = BackFrom(bytes_, sign, read_, may);
  if (form == Form::kEscapes && (start == 0 || !is_quote(bytes_[start - 1]))) return std::nullopt;
  Counter counter;
  read_ = form == Form::kPercent ? ReadPercent(bytes_, start, counter) : ReadEscapes(bytes_, start, counter);
  return counter.is_enough() ? std::optional(Run{form, start, read_, counter.is_known()}) : std::nullopt;
}

std::optional<Run> Finder::ReadNumbers(size_t from) {
  const auto may = [](uint8_t byte) { return kSpelling.Of(byte) != 0 && byte != '{'; };
  Counter decimals;
  Counter hexadecimals;
  bool is_decimal = true;
  bool is_hexadecimal = true;
  const auto put = [&](const Number& number) {
    const bool stays_decimal = is_decimal && number.decimal;
    const bool stays_hexadecimal = is_hexadecimal && number.hexadecimal;
    if (!stays_decimal && !stays_hexadecimal) return false;
    is_decimal = stays_decimal;
    is_hexadecimal = stays_hexadecimal;
    if (is_decimal) decimals(*number.decimal);
    if (is_hexadecimal) hexadecimals(*number.hexadecimal);
    return true;
  };
  // What stands before the first number may be a part of something else.
  size_t start = BackFrom(bytes_, from, read_, may);
  for (read_ = spelled::ReadNumbers(bytes_, start, put); read_ <= from && start < bytes_.size(); read_ = spelled::ReadNumbers(bytes_, start, put)) {
    start = std::max(read_, start) + 1;
    decimals = hexadecimals = Counter();
    is_decimal = is_hexadecimal = true;
  }
  const auto run = [&](Form form, const Counter& counter) { return Run{form, start, read_, counter.is_known()}; };
  // With `0x` before them they are the same.
  const bool are_both = is_decimal && is_hexadecimal && !decimals.IsSameAs(hexadecimals);
  if (are_both && hexadecimals.is_enough()) also_ = run(Form::kHexadecimals, hexadecimals);
  const Counter& counter = is_decimal ? decimals : hexadecimals;
  return counter.is_enough() ? std::optional(run(is_decimal ? Form::kDecimals : Form::kHexadecimals, counter)) : std::nullopt;
}

streams::End Decode(Bytes run, Form form, streams::Output& output) {
  if (form == Form::kBase64) return base64::Decode(run, output);
  if (form == Form::kReversedBase64) return base64::DecodeReversed(run, output);
  Sink sink(output);
  const auto put = [&sink](uint8_t byte) { return sink(byte); };
  if (form == Form::kDigits) ReadDigits(run, 0, put);
  if (form == Form::kPercent) ReadPercent(run, 0, put);
  if (form == Form::kEscapes) ReadEscapes(run, 0, put);
  if (form == Form::kDecimals) ReadNumbers(run, 0, [&sink](const Number& number) { return sink(number.decimal.value_or(0)); });
  if (form == Form::kHexadecimals) ReadNumbers(run, 0, [&sink](const Number& number) { return sink(number.hexadecimal.value_or(0)); });
  return sink.Flush() ? streams::End::kWhole : output.stopped();
}

}  // namespace sluice::spelled
