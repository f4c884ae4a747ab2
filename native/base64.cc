// SPDX-License-Identifier: GPL-2.0-only
// Readers of mails, pages and scripts differ in where they pass over what is no letter.
#include "base64.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "byte-classes.h"
#include "heads.h"
#include "pieces.h"

namespace sluice::base64 {
namespace {

bool IsHex(uint8_t byte) { return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f'); }

// By the high half of a byte, the same for letters of both cases.
constexpr ByteClasses kLetters = [] {
  ByteClasses classes;
  for (size_t byte = 0; byte < kValues.size(); byte++) {
    const size_t row = (byte >= 'A' ? byte & 0x5f : byte) >> 4;
    if (kValues[byte] != kNone) classes.Add(static_cast<uint8_t>(byte), static_cast<uint8_t>(1 << row));
  }
  return classes;
}();

// A line that ends with a word of so many letters is not the first one.
constexpr size_t kWordMost = 16;
// What says less is a digest or a key, of which a text may have thousands.
constexpr uint64_t kLeast = 66;

#if defined(__x86_64__)
// The next start, or a place behind which too few bytes lie to look at once.
SLUICE_AVX2 size_t PassOver(Bytes bytes, size_t at) {
  constexpr size_t kStep = 2 * kBytesAtOnce - kWordMost;
  const __m256i line_end = _mm256_set1_epi8('\n');
  uint64_t letter_before = 0;
  uint64_t line_before = at == 0 || bytes[at - 1] == '\n' ? 1 : 0;
  for (; at + 2 * kBytesAtOnce <= bytes.size(); at += kStep) {
    const __m256i low = BytesAt(bytes.data() + at);
    const __m256i high = BytesAt(bytes.data() + at + kBytesAtOnce);
    const uint64_t letters = InAny(ClassesOf(kLetters, low)) | uint64_t{InAny(ClassesOf(kLetters, high))} << kBytesAtOnce;
    const uint64_t lines = InAny(_mm256_cmpeq_epi8(low, line_end)) | uint64_t{InAny(_mm256_cmpeq_epi8(high, line_end))} << kBytesAtOnce;
    uint64_t many = letters & letters >> 1;
    for (unsigned count = 2; count < kWordMost; count *= 2) many &= many >> count;
    many &= letters >> kWordMost;
    const uint64_t begins = letters & ~(letters << 1 | letter_before) & (many | lines << 1 | line_before);
    if (const uint64_t known = begins & ((1ULL << kStep) - 1); known != 0) return at + static_cast<size_t>(__builtin_ctzll(known));
    letter_before = letters >> (kStep - 1) & 1;
    line_before = lines >> (kStep - 1) & 1;
  }
  return at;
}
#endif

// Some senders fill up each piece for itself, and mail programs read on.
size_t BehindPadding(Bytes bytes, size_t at, uint64_t letters) {
  const size_t padding = 4 - letters % 4;
  return padding < 3 && Has(bytes, at, std::string_view("==").substr(0, padding)) ? at + padding : at;
}

// Where the text goes on, at once or at the next line, if that is of the same letters.
std::optional<size_t> NextLine(Bytes bytes, size_t at) {
  constexpr std::string_view kMayFollow = "\r\n=<\"'&\\";
  if (at < bytes.size() && at > 0 && bytes[at - 1] == '=' && IsLetter(bytes[at])) return at;
  // One end of a line, by any system, or twice the first half as a wrong transfer makes it.
  const size_t line = at;
  while (at < bytes.size() && bytes[at] == '\r' && at - line < 2) at++;
  if (at < bytes.size() && bytes[at] == '\n') at++;
  if (at == line) return std::nullopt;
  while (at < bytes.size() && (bytes[at] == ' ' || bytes[at] == '\t')) at++;
  size_t end = at;
  while (end < bytes.size() && IsLetter(bytes[end])) end++;
  const bool goes_on = end > at && (end == bytes.size() || kMayFollow.find(static_cast<char>(bytes[end])) != kMayFollow.npos);
  return goes_on ? std::optional(at) : std::nullopt;
}

// Where it goes on behind blanks, as in an attribute of XML that had lines: readers pass over them. Between words there are some as well, but words are not so long.
std::optional<size_t> BehindBlanks(Bytes bytes, size_t at, size_t letters_before) {
  constexpr size_t kBlanksMost = 64;
  constexpr std::string_view kEnds = "=\"'<";
  const std::string_view rest = TextOf(bytes.subspan(at)).substr(0, kBlanksMost);
  const size_t blanks = rest.find_first_not_of(" \t");
  if (letters_before <= kWordMost || blanks == 0 || blanks == rest.npos) return std::nullopt;
  const Bytes next = bytes.subspan(at + blanks, std::min(bytes.size() - at - blanks, kWordMost + 1));
  const auto end = std::find_if_not(next.begin(), next.end(), IsLetter);
  const bool goes_on = end == next.end() ? next.size() > kWordMost : end != next.begin() && kEnds.find(static_cast<char>(*end)) != kEnds.npos;
  return goes_on ? std::optional(at + blanks) : std::nullopt;
}

// Of what a text without blanks says.
template <typename Letters>
heads::Head HeadOf(Letters letters) {
  heads::Head head;
  uint32_t bits = 0;
  size_t count = 0;
  for (const uint8_t letter : letters) {
    if (kValues[letter] == kNone || head.is_full()) break;
    bits = bits << 6 | kValues[letter];
    if (++count % 4 != 0) continue;
    for (const unsigned shift : {16, 8, 0}) head.Put(static_cast<uint8_t>(bits >> shift));
  }
  return head;
}

struct Reversed {
  Bytes bytes;
  auto begin() const { return bytes.rbegin(); }
  auto end() const { return bytes.rend(); }
};

Bytes WithoutPadding(Bytes run) {
  while (!run.empty() && run.back() == '=') run = run.first(run.size() - 1);
  return run;
}

// It has what stands at an end where it begins, or is known when it is read so.
bool IsReversed(Bytes bytes, size_t start, size_t end) {
  const bool begins_with_end = start > 1 && bytes[start - 1] == '=' && (bytes[start - 2] == '=' || bytes[start - 2] == '"' || bytes[start - 2] == '\'');
  if (begins_with_end) return true;
  const Bytes run = bytes.subspan(start, end - start);
  return !HeadOf(run).IsKnown() && HeadOf(Reversed{run}).IsKnown();
}

// Dashes are letters of an address, as many as there are. What begins no letter again, nor ends the text, is a rule, or stands between words. Null: such.
bool IsDash(uint8_t byte) { return byte == '-' || byte == '_'; }
size_t DashesAt(Bytes bytes, size_t at) {
  constexpr std::string_view kEnds = "\"'`<=";
  size_t end = at;
  while (end < bytes.size() && IsDash(bytes[end])) end++;
  const bool goes_on = end < bytes.size() && (IsLetter(bytes[end]) || kEnds.find(static_cast<char>(bytes[end])) != kEnds.npos);
  return goes_on ? end - at : 0;
}

// Where a letter begins that is spelled in another way, behind which this place stands, or within which: `%2F` ends with letters. This place: there is none.
size_t SpellingBefore(Bytes bytes, size_t at) {
  if (at == 0) return at;
  const uint8_t before = bytes[at - 1];
  if (IsDash(before) || (before == '\\' && Has(bytes, at, "/"))) return at - 1;
  if (before == '%' || before == '\\') return pieces::SpelledAt(bytes, at - 1).length > 0 ? at - 1 : at;
  for (size_t length = 5; before == ';' && length <= std::min<size_t>(6, at); length++) {
    if (pieces::SpelledAt(bytes, at - length).length == length) return at - length;
  }
  return at;
}

// Where a text begins whose first letters are too few, since one of them is spelled in another way: `H4sIAAAAAAAC\/w`. This place: here.
size_t BeforeSpellings(Bytes bytes, size_t start) {
  constexpr size_t kBackMost = 128;
  const size_t least = start - std::min(start, kBackMost);
  size_t at = start;
  for (size_t spelling = SpellingBefore(bytes, at); spelling < at && at > least; spelling = SpellingBefore(bytes, at)) {
    at = spelling;
    while (at > least && IsLetter(bytes[at - 1])) at--;
  }
  while (at < start && !IsLetter(bytes[at])) at++;
  return at;
}

// Letters of one text as they come.
class Counter {
 public:
  // It is known to have letters that are spelled in another way, from the first on.
  explicit Counter(bool is_spelled) : is_spelled_(is_spelled) {}
  void Take(Bytes bytes, size_t& at) {
    while (at < bytes.size()) {
      size_t letters = 1;
      if (IsLetter(bytes[at])) {
        is_hex_ = is_hex_ && IsHex(bytes[at]);
        at++;
      } else {
        const bool may_be_spelled = is_spelled_ || letters_ > kWordMost;
        size_t length = may_be_spelled ? pieces::SpelledAt(bytes, at).length : 0;
        if (length == 1) letters = length = DashesAt(bytes, at);
        if (length == 0) return;
        at += length;
        is_hex_ = false;
      }
      letters_ += letters;
      piece_ += letters;
    }
  }
  void EndPiece() {
    size_ += piece_ * 3 / 4;
    piece_ = 0;
  }
  uint64_t letters() const { return letters_; }
  uint64_t piece() const { return piece_; }
  uint64_t so_far() const { return is_hex_ ? 0 : size_ + piece_ * 3 / 4; }
  // Hexadecimal digits are something else.
  uint64_t size() const { return is_hex_ ? 0 : size_; }

 private:
  const bool is_spelled_;
  uint64_t letters_ = 0;
  uint64_t piece_ = 0;
  uint64_t size_ = 0;
  bool is_hex_ = true;
};

// The last line or piece of a text, and what was there before it.
struct Last {
  size_t start;
  size_t end;
  size_t end_before;
  uint64_t size_before;
  // Since padding.
  uint64_t letters;
};

// It may be a word that only ends the text, as `EOF` does where a shell has it among its lines. A line of base64 as short as that ends with
// padding, or has the letters that are missing.
bool IsWord(Bytes bytes, const Last& last) {
  const Bytes word = bytes.subspan(last.start, last.end - last.start);
  if (last.size_before < kLeast || word.size() > kWordMost || Has(bytes, last.end, "=")) return false;
  const bool is_behind_padding = bytes[last.end_before - 1] == '=';
  const auto is_capital = [](uint8_t letter) { return letter >= 'A' && letter <= 'Z'; };
  const auto is_small = [](uint8_t letter) { return letter >= 'a' && letter <= 'z'; };
  if (is_behind_padding || last.letters % 4 != 0) return true;
  // Zeros, of which the end of a zip has many: without them it is cut.
  if (2 * static_cast<size_t>(std::count(word.begin(), word.end(), 'A')) > word.size()) return false;
  return std::all_of(word.begin(), word.end(), is_capital) || std::all_of(word.begin(), word.end(), is_small);
}

size_t ReadFrom(Bytes bytes, size_t start, bool is_spelled, std::vector<Run>& runs) {
  const bool begins_line = start == 0 || bytes[start - 1] == '\n';
  Counter all(is_spelled);
  size_t at = start;
  size_t again = 0;
  bool is_listed = false;
  bool has_blanks = false;
  Last last{};
  for (std::optional<size_t> next = start; next;) {
    const uint64_t before = all.letters();
    const size_t piece = *next;
    last = {piece, piece, at, all.so_far(), 0};
    at = piece;
    all.Take(bytes, at);
    last.end = at;
    last.letters = all.piece();
    // A line of a word may stand before the first one.
    if (before > 0 && before <= kWordMost && all.letters() - before > kWordMost) again = piece;
    if (const uint64_t size = (all.letters() - before) * 3 / 4; is_listed && size >= kLeast) runs.push_back({piece, at, size, false});
    const size_t behind = BehindPadding(bytes, at, all.piece());
    if (behind != at && NextLine(bytes, behind)) {
      at = behind;
      all.EndPiece();
    }
    if (!begins_line && !is_spelled && all.letters() <= kWordMost) break;
    next = NextLine(bytes, at);
    if (next) continue;
    const std::optional<pieces::Next> cut = pieces::Behind(bytes, at);
    is_listed = is_listed || (cut && cut->is_listed);
    if (cut && cut->at < bytes.size() && IsLetter(bytes[cut->at])) next = cut->at;
    if (next || !(next = BehindBlanks(bytes, at, at - piece)) || std::exchange(has_blanks, true)) continue;
    // It may be all.
    if (all.so_far() >= kLeast) runs.push_back({start, at, all.so_far(), IsReversed(bytes, start, at)});
  }
  all.EndPiece();
  if (all.size() >= kLeast) runs.push_back({start, at, all.size(), IsReversed(bytes, start, at)});
  if (IsWord(bytes, last)) runs.push_back({start, last.end_before, last.size_before, false});
  return again != 0 ? again : at;
}

}  // namespace

size_t NextStart(Bytes bytes, size_t at) {
#if defined(__x86_64__)
  if (HasAvx2()) at = PassOver(bytes, at);
#endif
  while (at < bytes.size() && !IsLetter(bytes[at])) at++;
  return at;
}

size_t Read(Bytes bytes, size_t start, std::vector<Run>& runs) {
  const size_t before = runs.size();
  const size_t next = ReadFrom(bytes, start, false, runs);
  const size_t earlier = runs.size() > before ? BeforeSpellings(bytes, start) : start;
  if (earlier < start) ReadFrom(bytes, earlier, true, runs);
  return next;
}

bool SaysItself(Bytes bytes, size_t start, size_t end) {
  const Bytes run = WithoutPadding(bytes.subspan(start, end - start));
  if (HeadOf(run).IsKnown() || HeadOf(Reversed{run}).IsKnown()) return true;
  const size_t earlier = BeforeSpellings(bytes, start);
  if (earlier == start) return false;
  std::vector<uint8_t> letters;
  for (size_t at = earlier; at < end && letters.size() < 2 * heads::kSize; at++) {
    constexpr uint8_t kPlus = 62;
    const pieces::Letter spelled = pieces::SpelledAt(bytes, at);
    if (spelled.length > 0) {
      letters.push_back(spelled.value == kPlus ? '+' : '/');
      at += spelled.length - 1;
    } else if (IsLetter(bytes[at])) {
      letters.push_back(bytes[at]);
    }
  }
  return HeadOf(letters).IsKnown();
}

streams::End Decode(Bytes data, streams::Output& output) {
  constexpr size_t kGroup = 3;
  std::array<uint8_t, kGroup * 1024> decoded;
  size_t count = 0;
  uint32_t bits = 0;
  unsigned letters = 0;
  const auto end_piece = [&] {
    bits <<= 6 * (4 - letters);
    if (letters >= 2) decoded[count++] = static_cast<uint8_t>(bits >> 16);
    if (letters == 3) decoded[count++] = static_cast<uint8_t>(bits >> 8);
    letters = 0;
  };
  for (size_t at = 0; at < data.size();) {
    if (count > decoded.size() - kGroup) {
      if (!output.Put(Bytes(decoded).first(count))) return output.stopped();
      count = 0;
    }
    uint8_t value = kValues[data[at]];
    size_t next = at + 1;
    if (value == kNone) {
      if (data[at] == '=') end_piece();
      if (const pieces::Letter spelled = pieces::SpelledAt(data, at); spelled.length > 0) {
        value = spelled.value;
        next = at + spelled.length;
      } else if (const std::optional<pieces::Next> cut = pieces::Behind(data, at)) {
        next = cut->at;
      }
    }
    at = next;
    if (value == kNone) continue;
    bits = bits << 6 | value;
    if (++letters < 4) continue;
    for (const unsigned shift : {16, 8, 0}) decoded[count++] = static_cast<uint8_t>(bits >> shift);
    letters = 0;
  }
  end_piece();
  return output.Put(Bytes(decoded).first(count)) ? streams::End::kWhole : output.stopped();
}

streams::End DecodeReversed(Bytes data, streams::Output& output) {
  const std::vector<uint8_t> letters(data.rbegin(), data.rend());
  return Decode(letters, output);
}

}  // namespace sluice::base64
