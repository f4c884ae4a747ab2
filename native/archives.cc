// SPDX-License-Identifier: GPL-2.0-only
// ar(5); ustar with the sizes of GNU and of pax (POSIX.1-2001); rpm.org, "RPM V4 package format".
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
  for (at += kBlock; at < bytes.size() && bytes.size() - at >= kBlock; at += kBlock) {
    if (!IsHeader(bytes.subspan(at, kBlock))) continue;
    archive.members.push_back(bytes.subspan(at));
    break;
  }
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
    archive.is_cut = bytes.size() < at + kIntroduction;
    if (archive.is_cut) return archive;
    const Bytes header = bytes.subspan(at);
    archive.is_damaged = !Has(header, 0, "\x8e\xad\xe8");
    if (archive.is_damaged) return archive;
    const uint64_t size = kIntroduction + kEntry * big_endian(header, 8) + big_endian(header, 12);
    at += (size + alignment - 1) / alignment * alignment;
  }
  archive.is_cut = bytes.size() < at;
  archive.members.push_back(bytes.subspan(std::min<uint64_t>(at, bytes.size())));
  return archive;
}

}  // namespace

std::vector<Archive> Read(Bytes bytes) {
  std::vector<Archive> found;
  if (Has(bytes, 0, kArMagic)) found.push_back(ReadAr(bytes));
  if (IsTar(bytes)) found.push_back(ReadTar(bytes));
  if (Has(bytes, 0, "\xed\xab\xee\xdb")) found.push_back(ReadRpm(bytes));
  return found;
}

}  // namespace sluice::archives
