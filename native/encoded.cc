// SPDX-License-Identifier: GPL-2.0-only
// uuencode as POSIX.1-2008 has it.
#include "encoded.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "archives.h"
#include "base64.h"
#include "listed.h"

namespace sluice::encoded {
namespace {

using base64::IsLetter;

bool IsHex(uint8_t byte) { return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f'); }

// By so many bytes a text is known.
constexpr size_t kHead = 512;

// How many bytes a line has, and where the next one begins. Blanks at its end, which are zeros, may be missing. Nothing: there is none.
struct Line {
  uint8_t bytes;
  Bytes letters;
  size_t next;
};
std::optional<Line> LineAt(Bytes bytes, size_t at) {
  if (at >= bytes.size()) return std::nullopt;
  const uint8_t count = (bytes[at] - ' ') & 0x3f;
  const auto end = std::find(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.end(), '\n');
  const auto size = static_cast<size_t>(end - bytes.begin()) - at;
  Bytes line = bytes.subspan(at, size);
  if (!line.empty() && line.back() == '\r') line = line.first(size - 1);
  if (count == 0 || end == bytes.end() || line.empty() || TextOf(line) == "end") return std::nullopt;
  return Line{count, line.subspan(1, std::min(line.size() - 1, static_cast<size_t>(count + 2) / 3 * 4)), at + size + 1};
}

// Programs that open archives have their magic as well. A 7z has a sum of its first header, a cabinet its version.
constexpr size_t kSevenZipStart = 32;
bool IsSevenZip(Bytes rest) {
  constexpr size_t kStart = kSevenZipStart;
  constexpr size_t kSummed = 12;
  return rest.size() >= kStart && crc32(0, rest.data() + kSummed, kStart - kSummed) == Word(rest, 8);
}
bool IsCabinet(Bytes rest) { return Has(rest, 24, "\3\1") && Word(rest, 8) <= rest.size() && Word(rest, 16) < Word(rest, 8); }

// Quoted-printable of what is no text.
bool HasControls(std::string_view part) {
  constexpr std::string_view kInText = "9AaDd";
  for (size_t at = part.find('='); at != part.npos && at + 2 < part.size(); at = part.find('=', at + 1)) {
    const bool is_low = part[at + 1] == '0' && kInText.find(part[at + 2]) == kInText.npos;
    if ((is_low || part[at + 1] == '1') && IsHex(static_cast<uint8_t>(part[at + 2]))) return true;
  }
  return false;
}

// One of version 4 has its own header behind the magic, one of 5 behind a sum and a size of one to three bytes.
bool IsRar(Bytes rest) {
  constexpr size_t kLeast = 16;
  constexpr uint8_t kArchive = 0x73;
  if (rest.size() < kLeast || rest[6] > 1) return false;
  if (rest[6] == 0) return rest[9] == kArchive;
  return rest[7] == 0 && std::any_of(rest.begin() + 13, rest.begin() + kLeast, [](uint8_t type) { return type == 1 || type == 4; });
}

}  // namespace

// It is nothing else from its first line on.
bool IsBase64(Bytes bytes) {
  constexpr size_t kLine = 20;
  constexpr size_t kLines = 60;
  constexpr std::string_view kBlanks = "\xef\xbb\xbf \t\r\n";
  const size_t start = TextOf(bytes).find_first_not_of(kBlanks);
  if (start == std::string_view::npos || bytes.size() - start < kLines) return false;
  const Bytes lines = bytes.subspan(start, kLines);
  return std::all_of(lines.begin(), lines.begin() + kLine, IsLetter) &&
         std::all_of(lines.begin(), lines.end(), [](uint8_t byte) { return IsLetter(byte) || byte == '\r' || byte == '\n'; });
}

bool IsText(Bytes bytes) {
  const Bytes head = bytes.first(std::min(bytes.size(), kHead));
  return std::find(head.begin(), head.end(), 0) == head.end();
}

// The first line of a text has none before it, by whose end the others are found.
Finder::Finder(Bytes bytes, size_t members_max) : bytes_(bytes), members_max_(members_max) {
  if (Has(bytes, 0, "begin ")) FindUuencoded(0);
  AddBehindScript();
  has_base64_ = IsBase64(bytes);
  if (has_base64_) FindBase64(0);
}

void Finder::Meet(const marks::Mark& mark) {
  if (members_.size() > members_max_) return;
  switch (mark.kind) {
    case marks::Kind::kBase64:
      // The word may stand behind it, as in `atob(page)`. In a program that would be a name.
      if (!std::exchange(has_base64_, true)) FindBase64(IsText(bytes_) ? 0 : mark.at);
      return;
    case marks::Kind::kUuencoded:
      if (mark.at >= uuencoded_end_) FindUuencoded(mark.at);
      return;
    case marks::Kind::kSevenZip:
      if (IsSevenZip(bytes_.subspan(mark.at))) AddArchive(mark.at, kSevenZipStart + Long(bytes_, mark.at + 12) + Long(bytes_, mark.at + 20));
      return;
    case marks::Kind::kCabinet:
      if (IsCabinet(bytes_.subspan(mark.at))) AddArchive(mark.at, Word(bytes_, mark.at + 8));
      return;
    case marks::Kind::kTar:
      AddTar(mark.at);
      return;
    case marks::Kind::kLha:
      AddLha(mark.at);
      return;
    case marks::Kind::kEncodedScript:
      AddScript(mark.at);
      return;
    case marks::Kind::kWindowsProgram:
      AddWindowsProgram(mark.at);
      return;
    case marks::Kind::kLinuxProgram:
      AddLinuxProgram(mark.at);
      return;
    case marks::Kind::kNote:
      AddNote(mark.at);
      return;
    case marks::Kind::kBinHex:
      // At the beginning libclamav decodes it, and in a mail.
      AddArchive(mark.at, bytes_.size() - mark.at);
      return;
    case marks::Kind::kQuoted:
      CheckQuoted(mark.at);
      return;
    case marks::Kind::kCommand:
      FindCommand(mark.at);
      return;
    case marks::Kind::kRar:
      // Behind other bytes than those of a text libclamav finds it.
      if (IsRar(bytes_.subspan(mark.at)) && IsText(bytes_.first(mark.at))) AddArchive(mark.at, bytes_.size());
      return;
    default:
      return;
  }
}

void Finder::FindBase64(size_t from) {
  std::vector<base64::Run> runs;
  for (size_t at = base64::NextStart(bytes_, from); at < bytes_.size() && members_.size() <= members_max_; at = base64::NextStart(bytes_, at)) {
    runs.clear();
    at = base64::Read(bytes_, at, runs);
    for (const base64::Run& run : runs) {
      const uint16_t method = run.is_reversed ? kReversedBase64 : kBase64;
      members_.push_back({method, false, false, run.start, run.end, run.size, true});
    }
  }
}

// A line that says so, then lines of which the first character says how long they are.
void Finder::FindUuencoded(size_t at) {
  constexpr size_t kBegin = 6;
  const Bytes rest = bytes_.subspan(at + kBegin);
  const auto end = std::find(rest.begin(), rest.end(), '\n');
  if (end == rest.end() || rest[0] < '0' || rest[0] > '7') return;
  const size_t start = bytes_.size() - static_cast<size_t>(rest.end() - end) + 1;
  uint64_t size = 0;
  size_t next = start;
  for (std::optional<Line> line = LineAt(bytes_, next); line; line = LineAt(bytes_, next)) {
    size += line->bytes;
    next = line->next;
  }
  if (size > 0) members_.push_back({kUuencoded, false, false, start, next, size, true});
  // What is in one of its lines begins none.
  uuencoded_end_ = next;
}

// Behind other bytes, where 7z and programs that unpack themselves find it.
void Finder::AddArchive(size_t at, uint64_t size) {
  size = std::min<uint64_t>(size, bytes_.size() - at);
  archived_bytes_ += size;
  members_.push_back({kAsItIs, false, false, at, at + static_cast<size_t>(size), size, true});
}

// Those that begin at whole blocks are found without this.
void Finder::AddTar(size_t at) {
  const size_t size = at >= tar_end_ && at % archives::kBlock != 0 ? archives::SizeOfTar(bytes_.subspan(at)) : 0;
  if (size == 0) return;
  tar_end_ = at + size;
  AddArchive(at, size);
}

// Each of its members has a mark.
void Finder::AddLha(size_t at) {
  const size_t size = at >= lha_end_ ? listed::SizeOfLha(bytes_.subspan(at)) : 0;
  if (size == 0) return;
  lha_end_ = at + size;
  AddArchive(at, size);
}

// Up to the next one. libclamav decodes the first one where it begins a content, and in pages it makes all letters small.
void Finder::AddScript(size_t at) {
  constexpr std::string_view kBegin = "#@~^";
  AddArchive(at, std::min(TextOf(bytes_).find(kBegin, at + 1), bytes_.size()) - at);
}

// Scripts, shortcuts and what reads a picture take it from there to the end. In a program libclamav looks for others itself.
void Finder::AddProgram(size_t at) {
  constexpr std::string_view kPictures[] = {"\x89PNG", "GIF8", "\xff\xd8\xff", "BM", std::string_view("L\0\0\0\1\x14\2\0", 8)};
  const auto begins = [this](std::string_view magic) { return Has(bytes_, 0, magic); };
  if (!IsText(bytes_) && std::none_of(std::begin(kPictures), std::end(kPictures), begins)) return;
  has_program_ = true;
  AddArchive(at, bytes_.size());
}

// Its first header says where the second one is, which most have within a few hundred bytes.
void Finder::AddWindowsProgram(size_t at) {
  constexpr size_t kBackLeast = 64;
  constexpr size_t kBackMost = 1024;
  constexpr size_t kPlace = 60;
  if (has_program_ || at < kBackLeast) return;
  const size_t from = at - std::min(at, kBackMost);
  const std::string_view before = TextOf(bytes_).substr(from, at - kBackLeast + 2 - from);
  for (size_t start = before.find("MZ"); start != before.npos && !has_program_; start = before.find("MZ", start + 1)) {
    if (from + start + Word(bytes_, from + start + kPlace) == at) AddProgram(from + start);
  }
}

void Finder::AddLinuxProgram(size_t at) {
  constexpr size_t kHead = 52;
  if (has_program_ || bytes_.size() - at < kHead) return;
  const auto is_one_of_two = [this](size_t place) { return bytes_[place] == 1 || bytes_[place] == 2; };
  if (is_one_of_two(at + 4) && is_one_of_two(at + 5) && bytes_[at + 6] == 1) AddProgram(at);
}

// What a script takes of itself from a line on, as `tail -n +9 "$0" | uncompress`: the first line that is no text. What has a mark is found by that.
void Finder::AddBehindScript() {
  constexpr std::string_view kMarked[] = {"PK", "Rar!", "7z", "MSCF", "\x7f" "ELF", "MZ"};
  if (!Has(bytes_, 0, "#!")) return;
  const auto control = std::find_if(bytes_.begin(), bytes_.end(), [](uint8_t byte) { return byte < ' ' && byte != 0x1b && (byte < '\t' || byte > '\r'); });
  if (control == bytes_.end()) return;
  const std::string_view text = TextOf(bytes_).substr(0, static_cast<size_t>(control - bytes_.begin()));
  const size_t at = text.rfind('\n') + 1;
  const Bytes rest = bytes_.subspan(at);
  const auto begins = [rest](std::string_view magic) { return Has(rest, 0, magic); };
  if (at > 0 && !BeginsStream(rest) && std::none_of(std::begin(kMarked), std::end(kMarked), begins)) AddArchive(at, rest.size());
}

// FileDataStoreObject ([MS-ONESTORE] 2.6.13). libclamav looks for no more of them behind the first one that is said to be longer than the rest, and for none
// where a notebook doesn't begin as most do.
void Finder::AddNote(size_t at) {
  constexpr size_t kLength = 16;
  constexpr size_t kHead = 36;
  if (bytes_.size() - at > kHead) AddArchive(at + kHead, Long(bytes_, at + kLength));
}

// The word may be shortened to its first letter, and has a second name.
void Finder::FindCommand(size_t at) {
  constexpr std::string_view kWord = "encodedcommand";
  constexpr size_t kLeast = 40;
  const std::string_view text = TextOf(bytes_);
  size_t next = at + 1;
  for (const char letter : kWord) {
    if (next >= text.size() || (text[next] | 0x20) != letter) break;
    next++;
  }
  if (next == at + 2 && next < text.size() && (text[next] | 0x20) == 'c') next++;
  const size_t start = text.find_first_not_of(" \t\"'", next);
  if (start == text.npos || start == next) return;
  size_t end = start;
  while (end < bytes_.size() && IsLetter(bytes_[end])) end++;
  if (end - start >= kLeast) members_.push_back({kBase64, false, false, start, end, (end - start) * 3 / 4, true});
}

// A text is looked at as libclamav has it. To what is none that adds the end of a line.
void Finder::AddQuoted(size_t start, size_t end) {
  const std::string_view part = TextOf(bytes_).substr(start, end - start);
  constexpr std::string_view kHeadEnds[] = {"\r\n\r\n", "\n\n"};
  if (!HasControls(part)) return;
  for (const std::string_view head_end : kHeadEnds) {
    const size_t head = part.find(head_end);
    if (head == part.npos) continue;
    start += head + head_end.size();
    if (end > start && bytes_[end - 1] == '\r') end--;
    streams::Output counted(nullptr, bytes_.size(), streams::Clock::time_point::max());
    DecodeQuoted(bytes_.subspan(start, end - start), counted);
    members_.push_back({kQuoted, false, false, start, end, counted.size(), true});
    return;
  }
}

void Finder::CheckQuoted(size_t at) {
  constexpr size_t kFieldMost = 80;
  constexpr std::string_view kField = "encoding";
  const std::string_view text = TextOf(bytes_);
  const std::string_view before = text.substr(at - std::min(at, kFieldMost), std::min(at, kFieldMost));
  const size_t colon = before.rfind(':');
  if (at < quoted_end_ || colon == before.npos || colon < kField.size()) return;
  const auto is_same = [](char letter, char other) { return letter == (other | 0x20); };
  if (!std::equal(kField.begin(), kField.end(), before.begin() + static_cast<ptrdiff_t>(colon - kField.size()), is_same)) return;
  quoted_end_ = std::min(text.find("\n--", at), text.size());
  AddQuoted(at, quoted_end_);
  const std::string_view part = text.substr(at, quoted_end_ - at);
  for (size_t place = part.find('='); place != part.npos && !has_odd_quotes_; place = part.find('=', place + 1)) {
    const size_t behind = part.find_first_not_of(" \t", place + 1);
    has_odd_quotes_ = behind > place + 1 && behind != part.npos && (part[behind] == '\n' || part[behind] == '\r');
  }
}

bool BeginsStream(Bytes rest) {
  constexpr size_t kLeast = 14;
  if (rest.size() < kLeast) return false;
  switch (streams::KindOf(rest)) {
    case streams::Kind::kGzip:
      // Tools pass over what made it, and how.
      return rest[3] < 0x20;
    case streams::Kind::kBzip2:
      return Has(rest, 4, "1AY&SY");
    case streams::Kind::kXz:
    case streams::Kind::kZstd:
    case streams::Kind::kLzip:
      return true;
    case streams::Kind::kLz4:
      return rest[4] >> 6 == 1 && (rest[4] & 2) == 0 && (rest[5] & 0x8f) == 0;
    default:
      return false;
  }
}

// RFC 2045, 6.7. What is no spelling stands for itself.
streams::End DecodeQuoted(Bytes data, streams::Output& output) {
  std::array<uint8_t, 1024> decoded;
  size_t count = 0;
  const auto value = [](uint8_t digit) { return digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10; };
  for (size_t at = 0; at < data.size(); at++) {
    const Bytes rest = data.subspan(at);
    if (Has(rest, 0, "=\n") || Has(rest, 0, "=\r\n")) {
      at += rest[1] == '\r' ? 2 : 1;
      continue;
    }
    const bool is_spelled = rest.size() > 2 && rest[0] == '=' && IsHex(rest[1]) && IsHex(rest[2]);
    decoded[count++] = is_spelled ? static_cast<uint8_t>(value(rest[1]) << 4 | value(rest[2])) : rest[0];
    if (is_spelled) at += 2;
    if (count < decoded.size()) continue;
    if (!output.Put(decoded)) return output.stopped();
    count = 0;
  }
  return output.Put(Bytes(decoded).first(count)) ? streams::End::kWhole : output.stopped();
}

streams::End DecodeUuencoded(Bytes data, streams::Output& output) {
  std::array<uint8_t, 63> decoded;
  size_t at = 0;
  for (std::optional<Line> line = LineAt(data, at); line; line = LineAt(data, at)) {
    const auto value = [&line](size_t index) { return index < line->letters.size() ? static_cast<uint32_t>(line->letters[index] - ' ') & 0x3f : 0; };
    for (size_t group = 0; group < (line->bytes + 2U) / 3; group++) {
      const size_t first = 4 * group;
      const uint32_t bits = value(first) << 18 | value(first + 1) << 12 | value(first + 2) << 6 | value(first + 3);
      for (size_t byte = 0; byte < 3; byte++) decoded[3 * group + byte] = static_cast<uint8_t>(bits >> (16 - 8 * byte));
    }
    if (!output.Put(Bytes(decoded).first(line->bytes))) return output.stopped();
    at = line->next;
  }
  return streams::End::kWhole;
}

}  // namespace sluice::encoded
