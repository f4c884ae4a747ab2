// SPDX-License-Identifier: GPL-2.0-only
// ar(5); ustar with the sizes of GNU and of pax (POSIX.1-2001); rpm.org, "RPM V4 package format"; cpio(5).
#include "archives.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace sluice::archives {
namespace {

constexpr std::string_view kArMagic = "!<arch>\n";

std::optional<size_t> NumberOf(std::string_view text) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

// Headers of 60 characters, each before its data, at even places. One that ends within a header has nothing more to say.
Archive ReadAr(Bytes bytes) {
  constexpr size_t kHeader = 60;
  Archive archive{"ar", {}};
  for (Bytes rest = bytes.subspan(kArMagic.size()); rest.size() >= kHeader;) {
    const std::string_view header = TextOf(rest.first(kHeader));
    const std::optional<size_t> size = NumberOf(header.substr(48, 10));
    archive.is_damaged = !size || !header.ends_with("`\n");
    if (archive.is_damaged) break;
    const Bytes data = rest.subspan(kHeader);
    archive.is_cut = archive.is_cut || data.size() < *size;
    Bytes member = data.first(std::min(data.size(), *size));
    // As BSD has it: a long name lies before the data.
    constexpr std::string_view kLongName = "#1/";
    if (header.starts_with(kLongName)) {
      const size_t name = NumberOf(header.substr(kLongName.size(), 13)).value_or(0);
      member = member.subspan(std::min(name, member.size()));
    }
    archive.members.push_back(member);
    const size_t padded = *size + (*size & 1);
    rest = data.subspan(std::min(data.size(), std::max(padded, *size)));
  }
  return archive;
}

constexpr size_t kSizeAt = 124;
constexpr size_t kSizeDigits = 12;
constexpr size_t kSumAt = 148;
constexpr size_t kSumDigits = 8;
constexpr size_t kTypeAt = 156;
constexpr size_t kMagicAt = 257;
// Names and attributes of the next member, which nobody gets out.
constexpr std::string_view kNoMembers = "gxXKL";
constexpr std::string_view kExtended = "xX";
constexpr std::string_view kFiles("\0" "07", 3);
constexpr char kSparse = 'S';
constexpr uint8_t kBinary = 0x80;

// In octal digits; or in base 256, where the first bit says so.
std::optional<uint64_t> NumberIn(Bytes field) {
  uint64_t number = 0;
  if ((field[0] & kBinary) != 0) {
    number = field[0] & (kBinary - 1);
    for (const uint8_t byte : field.subspan(1)) number = number << 8 | byte;
    return number;
  }
  const std::string_view digits = TextOf(field);
  // As a volume has it that is only a label.
  const size_t first = digits.find_first_not_of(std::string_view(" \0", 2));
  if (first == digits.npos) return 0;
  const auto [end, error] = std::from_chars(digits.data() + first, digits.data() + digits.size(), number, 8);
  const bool is_whole = end == digits.data() + digits.size() || *end == ' ' || *end == '\0';
  return error == std::errc() && is_whole ? std::optional(number) : std::nullopt;
}

// A sum is below 2^24, so in base 256 the bytes before the last three are zero. Most blocks that are no header end here.
bool MayBeSum(Bytes field) {
  if ((field[0] & kBinary) != 0) return Has(field, 0, std::string_view("\x80\0\0\0\0", 5));
  const auto first = std::find_if(field.begin(), field.end(), [](uint8_t byte) { return byte != ' ' && byte != 0; });
  return first != field.end() && *first >= '0' && *first <= '7';
}

// The sum of all characters, with its own as blanks. Some tools take characters for signed. Other bytes may look like a small number.
bool IsHeader(Bytes block) {
  const Bytes field = block.subspan(kSumAt, kSumDigits);
  if (!MayBeSum(field)) return false;
  const std::optional<uint64_t> said = NumberIn(field);
  uint64_t sum = kSumDigits * ' ';
  if (!said || *said < sum || block[0] == 0) return false;
  uint64_t high = 0;
  for (size_t at = 0; at < kBlock; at++) {
    if (at >= kSumAt && at < kSumAt + kSumDigits) continue;
    sum += block[at];
    high += block[at] & 0x80;
  }
  return sum == *said || sum - 2 * high == *said;
}

struct Extended {
  std::optional<uint64_t> size;
  bool is_sparse = false;
};

// Records are `LENGTH KEY=VALUE` and a line's end. The last one of a key counts.
Extended ReadExtended(std::string_view records) {
  constexpr std::string_view kSize = "size=";
  Extended read;
  for (;;) {
    const std::optional<size_t> length = NumberOf(records);
    const size_t key = records.find(' ') + 1;
    if (!length || key == 0 || *length < key || *length > records.size()) return read;
    const std::string_view record = records.substr(key, *length - key);
    if (record.starts_with(kSize)) read.size = NumberOf(record.substr(kSize.size()));
    read.is_sparse = read.is_sparse || record.starts_with("GNU.sparse.");
    records.remove_prefix(*length);
  }
}

bool IsTar(Bytes bytes) {
  if (bytes.size() < kBlock) return false;
  return Has(bytes, kMagicAt, "ustar") || IsHeader(bytes.first(kBlock));
}

// tar and 7z pass over what is none.
std::optional<size_t> NextHeader(Bytes bytes, size_t at) {
  for (; at < bytes.size() && bytes.size() - at >= kBlock; at += kBlock) {
    if (IsHeader(bytes.subspan(at, kBlock))) return at;
  }
  return std::nullopt;
}

// From the first byte on that is none.
Bytes WithoutZeros(Bytes bytes) { return {std::find_if(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte != 0; }), bytes.end()}; }

// libclamav knows sizes in octal digits only, passes over types that tools take for files, and stops where the archive seems to end.
Archive ReadTar(Bytes bytes) {
  Archive archive{"tar", {}};
  // Without a magic libclamav may not see that it is one.
  const bool is_old = !Has(bytes, kMagicAt, "ustar");
  Extended extended;
  size_t at = 0;
  while (bytes.size() - at >= kBlock && IsHeader(bytes.subspan(at, kBlock))) {
    const Bytes header = bytes.subspan(at, kBlock);
    const char type = static_cast<char>(header[kTypeAt]);
    const std::optional<uint64_t> own = NumberIn(header.subspan(kSizeAt, kSizeDigits));
    const std::optional<uint64_t> size = extended.size ? extended.size : own;
    if (!size) break;
    const Bytes rest = bytes.subspan(at + kBlock);
    const Bytes data = rest.first(static_cast<size_t>(std::min<uint64_t>(*size, rest.size())));
    const bool has_plain_numbers = header[kSumAt] >= ' ' && ((header[kSumAt] | header[kSizeAt]) & kBinary) == 0;
    const bool is_opened = !is_old && !extended.size && has_plain_numbers && kFiles.find(type) != kFiles.npos;
    if (!is_opened && kNoMembers.find(type) == kNoMembers.npos) archive.members.push_back(data);
    archive.is_foreign = archive.is_foreign || extended.is_sparse || type == kSparse;
    extended = kExtended.find(type) == kExtended.npos ? Extended() : ReadExtended(TextOf(data));
    const uint64_t padded = (*size + kBlock - 1) / kBlock * kBlock;
    archive.is_cut = *size > rest.size();
    if (padded < *size || padded >= rest.size()) return archive;
    at += kBlock + static_cast<size_t>(padded);
  }
  const Bytes end = bytes.subspan(at, std::min(kBlock, bytes.size() - at));
  archive.is_damaged = std::any_of(end.begin(), end.end(), [](uint8_t byte) { return byte != 0; });
  // Behind its end others find what is theirs, up to one that begins with a whole header.
  const size_t next = NextHeader(bytes, at + kBlock).value_or(bytes.size());
  const Bytes between = WithoutZeros(bytes.subspan(at, next - at));
  if (!between.empty()) archive.members.push_back(between);
  if (next < bytes.size()) archive.members.push_back(bytes.subspan(next));
  return archive;
}

// A lead of 96 bytes, a header with signatures, one with what the package is, and the payload.
Archive ReadRpm(Bytes bytes) {
  constexpr size_t kLead = 96;
  constexpr size_t kIntroduction = 16;
  constexpr size_t kEntry = 16;
  // The first header is filled up to a whole number of these.
  constexpr size_t kAlignment = 8;
  const auto big_endian = [](Bytes header, size_t at) { return uint64_t{__builtin_bswap32(Word(header, at))}; };
  Archive archive{"RPM", {}};
  uint64_t at = kLead;
  for (const size_t alignment : {kAlignment, size_t{1}}) {
    // Where a header breaks off or says a wrong size, 7z finds the payload all the same.
    archive.is_damaged = bytes.size() < at + kIntroduction || !Has(bytes, at, "\x8e\xad\xe8");
    if (archive.is_damaged) return archive;
    const Bytes header = bytes.subspan(at);
    const uint64_t size = kIntroduction + kEntry * big_endian(header, 8) + big_endian(header, 12);
    at += (size + alignment - 1) / alignment * alignment;
  }
  archive.is_damaged = bytes.size() <= at;
  if (!archive.is_damaged) archive.members.push_back(bytes.subspan(at));
  return archive;
}

template <int kBase>
std::optional<uint64_t> Digits(Bytes digits) {
  const std::string_view text = TextOf(digits);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, kBase);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// How headers are written: in digits, or in halves of words in either order of bytes.
struct CpioKind {
  std::string_view magic;
  size_t header;
  size_t alignment;
  std::optional<uint64_t> (*name)(Bytes header);
  std::optional<uint64_t> (*size)(Bytes header);
};

uint64_t HighFirst(Bytes bytes, size_t at) { return uint64_t{bytes[at]} << 8 | bytes[at + 1]; }
std::optional<uint64_t> NewName(Bytes header) { return Digits<16>(header.subspan(94, 8)); }
std::optional<uint64_t> NewSize(Bytes header) { return Digits<16>(header.subspan(54, 8)); }
std::optional<uint64_t> OldName(Bytes header) { return Digits<8>(header.subspan(59, 6)); }
std::optional<uint64_t> OldSize(Bytes header) { return Digits<8>(header.subspan(65, 11)); }
std::optional<uint64_t> LowName(Bytes header) { return Half(header, 20); }
std::optional<uint64_t> LowSize(Bytes header) { return uint64_t{Half(header, 22)} << 16 | Half(header, 24); }
std::optional<uint64_t> HighName(Bytes header) { return HighFirst(header, 20); }
std::optional<uint64_t> HighSize(Bytes header) { return HighFirst(header, 22) << 16 | HighFirst(header, 24); }

constexpr CpioKind kCpioKinds[] = {
    {"070701", 110, 4, NewName, NewSize}, {"070702", 110, 4, NewName, NewSize},     {"070707", 76, 1, OldName, OldSize},
    {"\xc7\x71", 26, 2, LowName, LowSize}, {"\x71\xc7", 26, 2, HighName, HighSize},
};

// Text has no zero, and a name ends with one. Two bytes are no magic: there is a type of file behind them, and a name that isn't long.
bool IsCpio(Bytes bytes, const CpioKind& kind) {
  constexpr size_t kHead = 512;
  constexpr uint64_t kTypes = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 12;
  constexpr uint64_t kNameMost = 4096;
  if (!Has(bytes, 0, kind.magic)) return false;
  const Bytes head = bytes.first(std::min(bytes.size(), kHead));
  if (kind.magic.size() > 2) return std::find(head.begin(), head.end(), 0) != head.end();
  if (bytes.size() < kind.header) return false;
  const uint64_t mode = kind.name == LowName ? Half(bytes, 6) : HighFirst(bytes, 6);
  return (kTypes >> (mode >> 12) & 1) != 0 && kind.name(bytes) <= kNameMost;
}

// libclamav stops at a header that it can't read, in silence, and at the first end.
Archive ReadCpio(Bytes bytes, const CpioKind& kind) {
  const auto padded = [&kind](uint64_t size) { return (size + kind.alignment - 1) / kind.alignment * kind.alignment; };
  Archive archive{"cpio", {}};
  Bytes rest = bytes;
  for (bool is_last = false; !is_last;) {
    archive.is_cut = rest.size() < kind.header;
    if (archive.is_cut) return archive;
    const std::optional<uint64_t> name = kind.name(rest);
    const std::optional<uint64_t> size = kind.size(rest);
    archive.is_damaged = !name || *name == 0 || !size || !Has(rest, 0, kind.magic);
    if (archive.is_damaged) return archive;
    const uint64_t data = padded(kind.header + *name);
    archive.is_cut = rest.size() < data + *size;
    if (archive.is_cut) return archive;
    is_last = Has(rest, kind.header, std::string_view("TRAILER!!!\0", 11));
    // libclamav doesn't look for what lies in programs for Windows where they lie in a cpio: installers, and other programs.
    if (Has(rest, data, "MZ")) archive.members.push_back(rest.subspan(static_cast<size_t>(data), static_cast<size_t>(*size)));
    rest = rest.subspan(std::min<uint64_t>(rest.size(), data + padded(*size)));
  }
  // What Linux starts from has several, one after the other, and the last one may be compressed.
  archive.members.push_back(WithoutZeros(rest));
  return archive;
}

}  // namespace

size_t SizeOfTar(Bytes bytes) {
  size_t at = 0;
  while (bytes.size() - at >= kBlock && IsHeader(bytes.subspan(at, kBlock))) {
    const uint64_t size = NumberIn(bytes.subspan(at + kSizeAt, kSizeDigits)).value_or(0);
    const uint64_t blocks = size / kBlock + (size % kBlock != 0 ? 1 : 0);
    at += kBlock;
    if (blocks > (bytes.size() - at) / kBlock) return bytes.size();
    at += static_cast<size_t>(blocks) * kBlock;
  }
  return at;
}

std::vector<Archive> Read(Bytes bytes) {
  std::vector<Archive> found;
  if (Has(bytes, 0, kArMagic)) found.push_back(ReadAr(bytes));
  if (IsTar(bytes)) found.push_back(ReadTar(bytes));
  else if (const auto next = NextHeader(bytes, kBlock)) found.push_back({.name = "tar", .members = {bytes.subspan(*next)}, .is_behind = true});
  for (const CpioKind& kind : kCpioKinds) {
    if (IsCpio(bytes, kind)) found.push_back(ReadCpio(bytes, kind));
  }
  if (Has(bytes, 0, "\xed\xab\xee\xdb")) found.push_back(ReadRpm(bytes));
  return found;
}

}  // namespace sluice::archives
