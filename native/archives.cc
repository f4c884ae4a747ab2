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

constexpr size_t kBlock = 512;
constexpr size_t kSizeAt = 124;
constexpr size_t kSizeDigits = 12;
constexpr size_t kSumAt = 148;
constexpr size_t kSumDigits = 8;
constexpr size_t kTypeAt = 156;
constexpr size_t kMagicAt = 257;
constexpr char kExtended = 'x';
constexpr uint8_t kBinary = 0x80;

std::optional<uint64_t> Octal(std::string_view digits) {
  const size_t first = digits.find_first_not_of(' ');
  if (first == digits.npos) return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data() + first, digits.data() + digits.size(), number, 8);
  const bool is_whole = end == digits.data() + digits.size() || *end == ' ' || *end == '\0';
  return error == std::errc() && is_whole ? std::optional(number) : std::nullopt;
}

// The sum of all characters, with its own as blanks.
bool IsHeader(Bytes block) {
  const std::optional<uint64_t> said = Octal(TextOf(block.subspan(kSumAt, kSumDigits)));
  if (!said || block[0] == 0) return false;
  uint64_t sum = kSumDigits * ' ';
  for (size_t at = 0; at < kBlock; at++) sum += at >= kSumAt && at < kSumAt + kSumDigits ? 0 : block[at];
  return sum == *said;
}

// Base 256, where the first bit says so.
std::optional<uint64_t> SizeIn(Bytes block) {
  const Bytes field = block.subspan(kSizeAt, kSizeDigits);
  if ((field[0] & kBinary) == 0) return Octal(TextOf(field));
  uint64_t size = 0;
  for (const uint8_t byte : field.last(8)) size = size << 8 | byte;
  return size;
}

// Records are `LENGTH KEY=VALUE` and a line's end.
std::optional<uint64_t> SizeInExtended(std::string_view records) {
  constexpr std::string_view kKey = " size=";
  const size_t key = records.find(kKey);
  if (key == records.npos) return std::nullopt;
  uint64_t size = 0;
  const std::string_view value = records.substr(key + kKey.size());
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
  return error == std::errc() ? std::optional(size) : std::nullopt;
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

// libclamav knows sizes in octal digits only, and stops where the archive seems to end.
Archive ReadTar(Bytes bytes) {
  Archive archive{"tar", {}};
  std::optional<uint64_t> extended;
  size_t at = 0;
  while (bytes.size() - at >= kBlock && IsHeader(bytes.subspan(at, kBlock))) {
    const Bytes header = bytes.subspan(at, kBlock);
    const std::optional<uint64_t> own = SizeIn(header);
    const std::optional<uint64_t> size = extended ? extended : own;
    if (!size) break;
    const Bytes rest = bytes.subspan(at + kBlock);
    const Bytes data = rest.first(static_cast<size_t>(std::min<uint64_t>(*size, rest.size())));
    if (extended != std::nullopt || (header[kSizeAt] & kBinary) != 0) archive.members.push_back(data);
    extended = header[kTypeAt] == kExtended ? SizeInExtended(TextOf(data)) : std::nullopt;
    const uint64_t padded = (*size + kBlock - 1) / kBlock * kBlock;
    archive.is_cut = *size > rest.size();
    if (padded < *size || padded >= rest.size()) return archive;
    at += kBlock + static_cast<size_t>(padded);
  }
  const Bytes end = bytes.subspan(at, std::min(kBlock, bytes.size() - at));
  archive.is_damaged = std::any_of(end.begin(), end.end(), [](uint8_t byte) { return byte != 0; });
  // Behind it, one that begins with a whole header.
  if (const auto next = NextHeader(bytes, at + kBlock)) archive.members.push_back(bytes.subspan(*next));
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

constexpr std::string_view kCpioNew = "070701";
constexpr std::string_view kCpioSums = "070702";
constexpr std::string_view kCpioOld = "070707";

bool IsNewCpio(Bytes bytes) { return Has(bytes, 0, kCpioNew) || Has(bytes, 0, kCpioSums); }

// Text has no zero, and a name ends with one.
bool IsCpio(Bytes bytes) {
  constexpr size_t kHead = 512;
  const Bytes head = bytes.first(std::min(bytes.size(), kHead));
  return (IsNewCpio(bytes) || Has(bytes, 0, kCpioOld)) && std::find(head.begin(), head.end(), 0) != head.end();
}

// libclamav stops at a header that it can't read, in silence, and at the first end.
Archive ReadCpio(Bytes bytes) {
  const bool is_new = IsNewCpio(bytes);
  const size_t header = is_new ? 110 : 76;
  const auto number = [is_new](Bytes digits) -> std::optional<uint64_t> {
    const std::string_view text = TextOf(digits);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, is_new ? 16 : 8);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
  };
  const auto padded = [is_new](uint64_t size) { return is_new ? (size + 3) / 4 * 4 : size; };
  Archive archive{"cpio", {}};
  Bytes rest = bytes;
  for (bool is_last = false; !is_last;) {
    archive.is_cut = rest.size() < header;
    if (archive.is_cut) return archive;
    const auto name = number(is_new ? rest.subspan(94, 8) : rest.subspan(59, 6));
    const auto size = number(is_new ? rest.subspan(54, 8) : rest.subspan(65, 11));
    archive.is_damaged = !name || !size || !(is_new ? IsNewCpio(rest) : Has(rest, 0, kCpioOld));
    if (archive.is_damaged) return archive;
    const uint64_t data = padded(header + *name);
    archive.is_cut = rest.size() < data + *size;
    if (archive.is_cut) return archive;
    is_last = Has(rest, header, std::string_view("TRAILER!!!\0", 11));
    rest = rest.subspan(std::min<uint64_t>(rest.size(), data + padded(*size)));
  }
  // What Linux starts from has several, one after the other, and the last one may be compressed.
  const auto next = std::find_if(rest.begin(), rest.end(), [](uint8_t byte) { return byte != 0; });
  archive.members.push_back({next, rest.end()});
  return archive;
}

}  // namespace

std::vector<Archive> Read(Bytes bytes) {
  std::vector<Archive> found;
  if (Has(bytes, 0, kArMagic)) found.push_back(ReadAr(bytes));
  if (IsTar(bytes)) found.push_back(ReadTar(bytes));
  else if (const auto next = NextHeader(bytes, kBlock)) found.push_back({"tar", {bytes.subspan(*next)}});
  if (IsCpio(bytes)) found.push_back(ReadCpio(bytes));
  if (Has(bytes, 0, "\xed\xab\xee\xdb")) found.push_back(ReadRpm(bytes));
  return found;
}

}  // namespace sluice::archives
