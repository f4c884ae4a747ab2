// SPDX-License-Identifier: GPL-2.0-only
// RFC 4648; uuencode as POSIX.1-2008 has it. Mails, pages and documents have the first wherever their formats let them, and readers differ in where.
#include "encoded.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

namespace sluice::encoded {
namespace {

constexpr uint8_t kNone = 0xff;

constexpr std::array<uint8_t, 256> kValues = [] {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<uint8_t, 256> values{};
  values.fill(kNone);
  for (size_t at = 0; at < kAlphabet.size(); at++) values[static_cast<uint8_t>(kAlphabet[at])] = static_cast<uint8_t>(at);
  return values;
}();

bool IsLetter(uint8_t byte) { return kValues[byte] != kNone; }
bool IsHex(uint8_t byte) { return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f'); }

size_t FirstOf(Bytes bytes, size_t from, std::string_view word) {
  const size_t at = TextOf(bytes).find(word, from);
  return at == std::string_view::npos ? bytes.size() : at;
}

// The first place where a text speaks of it: in letters of either case, or as office documents, forms and visiting cards do.
size_t FirstWord(Bytes bytes) {
  constexpr std::string_view kWord = "base";
  constexpr std::string_view kWords[] = {"binData", "binary", "<chunk>", "ENCODING="};
  size_t first = bytes.size();
  for (size_t at = FirstOf(bytes, kWord.size(), "64"); at < bytes.size(); at = FirstOf(bytes, at + 1, "64")) {
    const Bytes before = bytes.subspan(at - kWord.size(), kWord.size());
    if (!std::equal(before.begin(), before.end(), kWord.begin(), [](uint8_t byte, char letter) { return (byte | 0x20) == letter; })) continue;
    first = at;
    break;
  }
  for (const std::string_view word : kWords) first = std::min(first, FirstOf(bytes.first(first), 0, word));
  return first;
}

// Where the text goes on at the next line, if that is of the same letters.
std::optional<size_t> NextLine(Bytes bytes, size_t at) {
  constexpr std::string_view kMayFollow = "\r\n=<\"'&";
  if (at < bytes.size() && bytes[at] == '\r') at++;
  if (at >= bytes.size() || bytes[at] != '\n') return std::nullopt;
  at++;
  while (at < bytes.size() && (bytes[at] == ' ' || bytes[at] == '\t')) at++;
  size_t end = at;
  while (end < bytes.size() && IsLetter(bytes[end])) end++;
  const bool goes_on = end > at && (end == bytes.size() || kMayFollow.find(static_cast<char>(bytes[end])) != kMayFollow.npos);
  return goes_on ? std::optional(at) : std::nullopt;
}

// Those that are shorter are digests and keys, of which a text may have thousands. Hexadecimal digits are something else.
void FindBase64(Bytes bytes, size_t members_max, std::vector<zip::Member>& found) {
  constexpr uint64_t kLeast = 66;
  // A line that ends with a word is not the first one.
  constexpr uint64_t kWordMost = 16;
  for (size_t at = FirstWord(bytes); at < bytes.size() && found.size() <= members_max; at++) {
    if (!IsLetter(bytes[at])) continue;
    const size_t start = at;
    const bool begins_line = start == 0 || bytes[start - 1] == '\n';
    uint64_t letters = 0;
    bool is_hex = true;
    for (std::optional<size_t> next = at; next; next = begins_line || letters > kWordMost ? NextLine(bytes, at) : std::nullopt) {
      for (at = *next; at < bytes.size() && IsLetter(bytes[at]); at++, letters++) is_hex = is_hex && IsHex(bytes[at]);
    }
    const uint64_t size = letters * 3 / 4;
    if (size >= kLeast && !is_hex) found.push_back({kBase64, false, false, start, at, size, true});
  }
}

// How many bytes a line has, and where the next one begins. Nothing: it is the last one.
struct Line {
  uint8_t bytes;
  Bytes letters;
  size_t next;
};
std::optional<Line> LineAt(Bytes bytes, size_t at) {
  if (at >= bytes.size()) return std::nullopt;
  const uint8_t count = (bytes[at] - ' ') & 0x3f;
  const size_t letters = static_cast<size_t>(count + 2) / 3 * 4;
  if (count == 0 || bytes.size() - at <= letters) return std::nullopt;
  const Bytes rest = bytes.subspan(at + 1 + letters);
  const auto end = std::find(rest.begin(), rest.end(), '\n');
  if (end == rest.end()) return std::nullopt;
  return Line{count, bytes.subspan(at + 1, letters), static_cast<size_t>(end - rest.begin()) + at + letters + 2};
}

// A line that says so, then lines of which the first character says how long they are.
void FindUuencoded(Bytes bytes, size_t members_max, std::vector<zip::Member>& found) {
  constexpr std::string_view kBegin = "begin ";
  for (size_t at = 0; at < bytes.size() && found.size() <= members_max; at++) {
    at = FirstOf(bytes, at, kBegin);
    if (at == bytes.size()) return;
    const Bytes rest = bytes.subspan(at + kBegin.size());
    if ((at > 0 && bytes[at - 1] != '\n') || rest.empty() || rest[0] < '0' || rest[0] > '7') continue;
    const auto end = std::find(rest.begin(), rest.end(), '\n');
    if (end == rest.end()) return;
    const size_t start = bytes.size() - static_cast<size_t>(rest.end() - end) + 1;
    uint64_t size = 0;
    size_t next = start;
    for (std::optional<Line> line = LineAt(bytes, next); line; line = LineAt(bytes, next)) {
      size += line->bytes;
      next = line->next;
    }
    if (size > 0) found.push_back({kUuencoded, false, false, start, next, size, true});
    // What is in one of its lines begins none.
    at = next - 1;
  }
}

// Programs that open archives have their magic as well. A 7z has a sum of its first header, a cabinet its version.
bool IsSevenZip(Bytes rest) {
  constexpr size_t kStart = 32;
  constexpr size_t kSummed = 12;
  return rest.size() >= kStart && crc32(0, rest.data() + kSummed, kStart - kSummed) == Word(rest, 8);
}
bool IsCabinet(Bytes rest) { return Has(rest, 24, "\3\1") && Word(rest, 8) <= rest.size() && Word(rest, 16) < Word(rest, 8); }

// Archives behind other bytes, where 7z and programs that unpack themselves find them.
void FindArchives(Bytes bytes, size_t members_max, std::vector<zip::Member>& found) {
  const auto find = [&](std::string_view magic, bool (*is_one)(Bytes)) {
    for (size_t at = FirstOf(bytes, 1, magic); at < bytes.size() && found.size() <= members_max; at = FirstOf(bytes, at + 1, magic)) {
      if (is_one(bytes.subspan(at))) found.push_back({kAsItIs, false, false, at, bytes.size(), bytes.size() - at, true});
    }
  };
  find(std::string_view("7z\xbc\xaf\x27\x1c\0", 7), IsSevenZip);
  find(std::string_view("MSCF\0\0\0\0", 8), IsCabinet);
}

}  // namespace

std::vector<zip::Member> Find(Bytes bytes, size_t members_max) {
  std::vector<zip::Member> found;
  FindArchives(bytes, members_max, found);
  FindBase64(bytes, members_max, found);
  FindUuencoded(bytes, members_max, found);
  return found;
}

std::optional<size_t> FindStream(Bytes bytes, size_t at) {
  // More than a magic: what stands in a header of each.
  const auto begins = [](Bytes rest) {
    constexpr size_t kLeast = 14;
    if (rest.size() < kLeast) return false;
    switch (streams::KindOf(rest)) {
      case streams::Kind::kGzip:
        return rest[3] < 0x20 && (rest[8] == 0 || rest[8] == 2 || rest[8] == 4) && (rest[9] <= 13 || rest[9] == 0xff);
      case streams::Kind::kBzip2:
        return Has(rest, 4, "1AY&SY");
      case streams::Kind::kXz:
      case streams::Kind::kZstd:
        return true;
      default:
        return false;
    }
  };
  // Of each a byte that is seldom, and where it stands.
  constexpr std::pair<int, size_t> kLetters[] = {{0x1f, 0}, {'&', 7}, {0xfd, 0}, {0xb5, 1}};
  // One letter may be in every place, and another one in none of the whole content.
  constexpr size_t kWindow = 4096;
  for (size_t start = at; start < bytes.size(); start += kWindow) {
    const size_t end = std::min(start + kWindow, bytes.size());
    size_t first = end;
    for (const auto& [letter, before] : kLetters) {
      for (size_t place = start; place < first && bytes.size() - place > before; place++) {
        const void* found = std::memchr(bytes.data() + place + before, letter, std::min(first - place, bytes.size() - before - place));
        if (found == nullptr) break;
        place = static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes.data()) - before;
        if (begins(bytes.subspan(place))) first = place;
      }
    }
    if (first < end) return first;
  }
  return std::nullopt;
}

streams::End DecodeBase64(Bytes data, streams::Output& output) {
  std::array<uint8_t, 3 * 1024> decoded;
  size_t count = 0;
  uint32_t bits = 0;
  unsigned letters = 0;
  for (const uint8_t byte : data) {
    if (!IsLetter(byte)) continue;
    bits = bits << 6 | kValues[byte];
    if (++letters % 4 != 0) continue;
    for (const unsigned shift : {16, 8, 0}) decoded[count++] = static_cast<uint8_t>(bits >> shift);
    if (count == decoded.size()) {
      if (!output.Put(decoded)) return output.stopped();
      count = 0;
    }
  }
  const unsigned left = letters % 4;
  bits <<= 6 * (4 - left);
  if (left >= 2) decoded[count++] = static_cast<uint8_t>(bits >> 16);
  if (left == 3) decoded[count++] = static_cast<uint8_t>(bits >> 8);
  return output.Put(Bytes(decoded).first(count)) ? streams::End::kWhole : output.stopped();
}

streams::End DecodeUuencoded(Bytes data, streams::Output& output) {
  std::array<uint8_t, 63> decoded;
  size_t at = 0;
  for (std::optional<Line> line = LineAt(data, at); line; line = LineAt(data, at)) {
    const auto value = [&line](size_t index) { return static_cast<uint32_t>(line->letters[index] - ' ') & 0x3f; };
    for (size_t group = 0; group < line->letters.size() / 4; group++) {
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
