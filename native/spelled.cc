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
#include "spellings.h"

namespace sluice::spelled {
namespace {

constexpr size_t kBlock = 32;
// Of letters fewer are enough.
constexpr size_t kHalf = 16;
// What says less are digests, colours and the like.
constexpr uint64_t kLeast = 66;
// Of a block of numbers.
constexpr int kDigitsLeast = 6;
// Of a block of a string among whose letters are others.
constexpr int kEscapesLeast = 4;
constexpr int kPercentsLeast = 5;
// What begins further before a block has had one of its own.
constexpr size_t kBackMost = 512;

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
  add("Hh`", 16);
  add(":;", 64);
  // Those of `Chr`, `0x`, `\u` and `(byte)`, brackets, bars, and a line that goes on.
  add("RTUWXYrtuwxy[\\]_|", 32);
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
  if (std::count(block.begin(), block.end(), '\\') >= kEscapesLeast || std::count(block.begin(), block.end(), '%') >= kPercentsLeast) return true;
  return IsSpelling(block) && std::count_if(block.begin(), block.end(), is_digit) >= kDigitsLeast;
}

#if defined(__x86_64__)
SLUICE_AVX2 size_t PassOver(Bytes bytes, size_t at) {
  constexpr uint32_t kHalfMask = (1 << kHalf) - 1;
  const __m256i digits = _mm256_set1_epi8(kDigitClasses);
  const __m256i backslash = _mm256_set1_epi8('\\');
  const __m256i percent = _mm256_set1_epi8('%');
  for (; at + kBlock <= bytes.size(); at += kBlock) {
    const __m256i block = BytesAt(bytes.data() + at);
    const __m256i spelling = ClassesOf(kSpelling, block);
    const uint32_t any = InAny(spelling);
    if (any == UINT32_MAX && __builtin_popcount(InAny(_mm256_and_si256(spelling, digits))) >= kDigitsLeast) return at;
    if (__builtin_popcount(InAny(_mm256_cmpeq_epi8(block, backslash))) >= kEscapesLeast) return at;
    if (__builtin_popcount(InAny(_mm256_cmpeq_epi8(block, percent))) >= kPercentsLeast) return at;
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

// Of a block the first escape, if there are enough.
std::optional<size_t> EscapeIn(Bytes block, bool is_spelling) {
  const std::string_view text = TextOf(block);
  std::optional<size_t> first;
  int count = 0;
  for (size_t at = text.find('\\'); at != text.npos; at = text.find('\\', at + 2)) {
    if (!EscapeAt(block, at + 1, kDecimal) || (!is_spelling && block[at + 1] != 'x' && !Has(block, at + 2, "{"))) continue;
    if (!first) first = at;
    count++;
  }
  return is_spelling || count >= kEscapesLeast ? first : std::nullopt;
}

std::optional<size_t> PercentIn(Bytes block, bool is_spelling) {
  const std::string_view text = TextOf(block);
  std::optional<size_t> first;
  int count = 0;
  for (size_t at = text.find('%'); at != text.npos; at = text.find('%', at + 1)) {
    if (!IsHexAt(block, at + 1) && !Has(block, at + 1, "u")) continue;
    if (!first) first = at;
    count++;
  }
  return is_spelling || count >= kPercentsLeast ? first : std::nullopt;
}

// Where what reaches into a block may begin, not before `from`.
template <typename May>
size_t BackFrom(Bytes bytes, size_t block, size_t from, May may) {
  from = std::max(from, block - std::min(block, kBackMost));
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
    // Blocks begin at the same places with AVX2 and without.
    next_ = std::max(block + kBlock, read_ / kBlock * kBlock);
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
  if (read_ > block) return std::nullopt;
  const bool is_spelling = IsSpelling(there);
  if (const std::optional<size_t> escape = EscapeIn(there, is_spelling)) return ReadEscaped(block + *escape);
  if (const std::optional<size_t> percent = PercentIn(there, is_spelling)) return ReadAddress(block + *percent);
  if (!is_spelling) return std::nullopt;
  const std::string_view text = TextOf(there);
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
    return base64::SaysItself(bytes_, start, end) ? std::optional(Run{Form::kBase64, start, end, true}) : std::nullopt;
  }
  Counter counter;
  read_ = ReadDigits(bytes_, start, counter);
  // As pages of a PDF have their words.
  const bool is_word = start > 0 && bytes_[start - 1] == '<' && Has(bytes_, read_, ">");
  return counter.is_enough() && !is_word ? std::optional(Run{Form::kDigits, start, read_, counter.is_known()}) : std::nullopt;
}

// In quotes.
std::optional<Run> Finder::ReadEscaped(size_t sign) {
  static constexpr std::string_view kQuotes = "\"'`";
  const auto is_quote = [](uint8_t byte) { return kQuotes.find(static_cast<char>(byte)) != kQuotes.npos; };
  size_t start = BackFrom(bytes_, sign, read_, [&](uint8_t byte) { return !is_quote(byte) && byte != '\n'; });
  if (start == 0 || !is_quote(bytes_[--start])) return std::nullopt;
  Counter counter;
  Counter decimals;
  read_ = spelled::ReadEscapes(bytes_, start, kOctal, counter);
  const size_t end = spelled::ReadEscapes(bytes_, start, kDecimal, decimals);
  const bool are_decimal = decimals.is_enough() && decimals.is_known() && !counter.IsSameAs(decimals);
  if (are_decimal) also_ = Run{Form::kDecimalEscapes, start, end, true};
  return counter.is_enough() ? std::optional(Run{Form::kEscapes, start, read_, counter.is_known()}) : std::exchange(also_, std::nullopt);
}

std::optional<Run> Finder::ReadAddress(size_t sign) {
  const size_t start = BackFrom(bytes_, sign, read_, [](uint8_t byte) { return byte == '%' || StandsInAddress(byte); });
  Counter counter;
  read_ = ReadPercent(bytes_, start, counter);
  return counter.is_enough() ? std::optional(Run{Form::kPercent, start, read_, counter.is_known()}) : std::nullopt;
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
    // What stands between numbers alone begins none.
    start = std::max(BehindWords(bytes_, start), std::max(read_, start) + 1);
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
  if (form == Form::kEscapes) ReadEscapes(run, 0, kOctal, put);
  if (form == Form::kDecimalEscapes) ReadEscapes(run, 0, kDecimal, put);
  if (form == Form::kDecimals) ReadNumbers(run, 0, [&sink](const Number& number) { return sink(number.decimal.value_or(0)); });
  if (form == Form::kHexadecimals) ReadNumbers(run, 0, [&sink](const Number& number) { return sink(number.hexadecimal.value_or(0)); });
  return sink.Flush() ? streams::End::kWhole : output.stopped();
}

}  // namespace sluice::spelled
