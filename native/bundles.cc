// SPDX-License-Identifier: GPL-2.0-only
// RFC 1740; Electron's asar, whose list is JSON behind four lengths; PyInstaller's CArchive and PYZ; PHP's manual, "Phar File Format".
#include "bundles.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "hex.h"

namespace sluice::bundles {
namespace {

// What is smaller holds nothing that is looked for.
constexpr uint64_t kLeast = 66;

uint64_t HighNumber(Bytes bytes, size_t at, size_t count) {
  uint64_t number = 0;
  for (const uint8_t byte : bytes.subspan(at, count)) number = number << 8 | byte;
  return number;
}

void Add(Bytes bytes, uint64_t start, uint64_t size, std::vector<File>& files) {
  if (start >= bytes.size() || size < kLeast) return;
  files.push_back({static_cast<size_t>(start), static_cast<size_t>(std::min<uint64_t>(size, bytes.size() - start))});
}

std::vector<File> ReadApple(Bytes bytes) {
  constexpr size_t kHead = 26;
  constexpr size_t kEntry = 12;
  constexpr uint64_t kData = 1;
  constexpr uint64_t kResources = 2;
  std::vector<File> files;
  if (bytes.size() < kHead) return files;
  const size_t count = static_cast<size_t>(HighNumber(bytes, 24, 2));
  for (size_t at = kHead; at < kHead + count * kEntry && bytes.size() - at >= kEntry; at += kEntry) {
    const uint64_t kind = HighNumber(bytes, at, 4);
    if (kind == kData || kind == kResources) Add(bytes, HighNumber(bytes, at + 4, 4), HighNumber(bytes, at + 8, 4), files);
  }
  return files;
}

// Any letter of a string may be spelled by its number. The text is not empty.
char TakeLetter(std::string_view& text) {
  constexpr std::string_view kEscape = "\\u00";
  constexpr size_t kDigits = 2;
  char letter = text[0];
  size_t taken = 1;
  if (text.starts_with(kEscape) && text.size() >= kEscape.size() + kDigits) {
    letter = static_cast<char>(ByteOf(text.substr(kEscape.size())).value_or(0));
    taken = kEscape.size() + kDigits;
  }
  text.remove_prefix(taken);
  return letter;
}

bool IsKey(std::string_view written, std::string_view name) {
  for (const char letter : name) {
    if (written.empty() || TakeLetter(written) != letter) return false;
  }
  return written.empty();
}

std::optional<uint64_t> DecimalIn(std::string_view text) {
  constexpr size_t kDigitsMost = 20;
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n\""), text.size()));
  std::string digits;
  while (!text.empty() && digits.size() < kDigitsMost) {
    const char digit = TakeLetter(text);
    if (digit < '0' || digit > '9') break;
    digits += digit;
  }
  uint64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) return std::nullopt;
  return value;
}

// An object of the list that has a size and a place is a file.
std::vector<File> ReadAsar(Bytes bytes, size_t files_max) {
  constexpr size_t kHead = 16;
  constexpr size_t kDepthMost = 256;
  struct Object {
    std::optional<uint64_t> size;
    std::optional<uint64_t> offset;
  };
  std::vector<File> files;
  const uint64_t base = 8 + uint64_t{Word(bytes, 4)};
  const std::string_view list = TextOf(bytes).substr(kHead, Word(bytes, 12));
  std::vector<Object> objects;
  for (size_t at = 0; at < list.size() && files.size() <= files_max; at++) {
    if (list[at] == '{' && objects.size() < kDepthMost) objects.emplace_back();
    if (objects.empty()) continue;
    Object& object = objects.back();
    if (list[at] == '}') {
      if (object.size && object.offset) Add(bytes, base + *object.offset, *object.size, files);
      objects.pop_back();
    }
    if (list[at] != '"') continue;
    const size_t start = ++at;
    while (at < list.size() && list[at] != '"') at += list[at] == '\\' ? 2 : 1;
    const std::string_view name = list.substr(start, at - start);
    const bool is_size = IsKey(name, "size");
    if (!is_size && !IsKey(name, "offset")) continue;
    const size_t colon = list.find_first_not_of(" \t\r\n", std::min(at + 1, list.size()));
    if (colon == list.npos || list[colon] != ':') continue;
    (is_size ? object.size : object.offset) = DecimalIn(list.substr(colon + 1));
  }
  return files;
}

std::vector<File> ReadPropertyList(Bytes bytes, size_t files_max) {
  constexpr size_t kTrailer = 32;
  constexpr uint8_t kData = 4;
  constexpr uint8_t kLong = 15;
  std::vector<File> files;
  if (bytes.size() < kTrailer) return files;
  const size_t trailer = bytes.size() - kTrailer;
  const size_t width = bytes[trailer + 6];
  const uint64_t count = HighNumber(bytes, trailer + 8, 8);
  const uint64_t table = HighNumber(bytes, trailer + 24, 8);
  if (width == 0 || width > 8 || table > trailer) return files;
  const uint64_t there = std::min<uint64_t>(count, (trailer - table) / width);
  for (uint64_t index = 0; index < there && files.size() <= files_max; index++) {
    const uint64_t at = HighNumber(bytes, static_cast<size_t>(table + index * width), width);
    constexpr size_t kHeadMost = 10;
    if (at > trailer || trailer - at < kHeadMost || bytes[static_cast<size_t>(at)] >> 4 != kData) continue;
    uint64_t size = bytes[static_cast<size_t>(at)] & kLong;
    uint64_t start = at + 1;
    if (size == kLong) {
      const size_t digits = size_t{1} << (bytes[static_cast<size_t>(start)] & 3);
      size = HighNumber(bytes, static_cast<size_t>(start) + 1, digits);
      start += 1 + digits;
    }
    Add(bytes, start, size, files);
  }
  return files;
}

// A name, and how long both forks are: the one of data, then that of resources, each filled up to a whole number of blocks.
std::vector<File> ReadMacBinary(Bytes bytes) {
  constexpr size_t kUnit = 128;
  constexpr uint8_t kNameMost = 63;
  std::vector<File> files;
  if (bytes.size() < kUnit || bytes[0] != 0 || bytes[1] == 0 || bytes[1] > kNameMost || bytes[74] != 0 || bytes[82] != 0) return files;
  const Bytes name = bytes.subspan(2, bytes[1]);
  const uint64_t data = HighNumber(bytes, 83, 4);
  const uint64_t resources = HighNumber(bytes, 87, 4);
  if (std::any_of(name.begin(), name.end(), [](uint8_t byte) { return byte < ' '; }) || data + resources > bytes.size() - kUnit) return files;
  const uint64_t start = kUnit + (HighNumber(bytes, 120, 2) + kUnit - 1) / kUnit * kUnit;
  Add(bytes, start, data, files);
  Add(bytes, start + (data + kUnit - 1) / kUnit * kUnit, resources, files);
  return files;
}

// [MS-OLEDS] has no word of it: a kind, a name, a path, another kind, another path behind its length, and the file behind its size.
// libclamav believes a wrong length before all that.
std::vector<File> ReadPackage(Bytes bytes, size_t at) {
  constexpr size_t kNameMost = 1024;
  constexpr size_t kLength = 4;
  std::vector<File> files;
  if (!Has(bytes, at, std::string_view("\2\0", 2))) return files;
  at += 2;
  for (int name = 0; name < 2; name++) {
    const size_t length = TextOf(bytes).substr(at, kNameMost).find('\0');
    if (length == std::string_view::npos) return files;
    at += length + 1;
  }
  if (!Has(bytes, at, std::string_view("\0\0\3\0", 4)) || bytes.size() - at < 2 * kLength) return files;
  const uint64_t size_at = at + 2 * kLength + uint64_t{Word(bytes, at + kLength)};
  if (size_at + kLength <= bytes.size()) Add(bytes, size_at + kLength, Word(bytes, static_cast<size_t>(size_at)), files);
  return files;
}

}  // namespace

std::vector<File> Read(Bytes bytes, size_t files_max) {
  if (Has(bytes, 0, std::string_view("\0\x05\x16\0", 4)) || Has(bytes, 0, std::string_view("\0\x05\x16\x07", 4))) return ReadApple(bytes);
  if (Has(bytes, 0, "bplist0")) return ReadPropertyList(bytes, files_max);
  const bool is_asar = Has(bytes, 0, std::string_view("\x04\0\0\0", 4)) && Has(bytes, 16, "{\"files\":");
  if (is_asar) return ReadAsar(bytes, files_max);
  constexpr size_t kLength = 4;
  for (const size_t at : {size_t{0}, kLength}) {
    if (const std::vector<File> files = ReadPackage(bytes, at); !files.empty()) return files;
  }
  return ReadMacBinary(bytes);
}

std::vector<File> ReadPyInstaller(Bytes bytes, size_t mark, size_t files_max, uint64_t& read) {
  constexpr size_t kEntry = 18;
  std::vector<File> files;
  // From version 2.1 on it ends with the name of a library.
  for (const size_t tail : {size_t{88}, size_t{24}}) {
    if (bytes.size() - mark < tail) continue;
    const uint64_t length = HighNumber(bytes, mark + 8, 4);
    const uint64_t list = HighNumber(bytes, mark + 12, 4);
    const uint64_t list_length = HighNumber(bytes, mark + 16, 4);
    if (length > mark + tail || list + list_length > length) continue;
    const size_t start = static_cast<size_t>(mark + tail - length);
    const Bytes entries = bytes.subspan(start + static_cast<size_t>(list), static_cast<size_t>(list_length));
    for (size_t at = 0; entries.size() - at > kEntry && files.size() <= files_max;) {
      const uint64_t entry = HighNumber(entries, at, 4);
      if (entry <= kEntry || entry > entries.size() - at) break;
      read += entry;
      const size_t before = files.size();
      Add(bytes, start + HighNumber(entries, at + 4, 4), HighNumber(entries, at + 8, 4), files);
      if (files.size() > before) files.back().is_packed = entries[at + 16] == 1;
      at += static_cast<size_t>(entry);
    }
    if (!files.empty()) break;
  }
  return files;
}

std::vector<File> ReadPhar(Bytes bytes, size_t mark, size_t files_max, uint64_t& read) {
  constexpr std::string_view kMark = "__HALT_COMPILER();";
  constexpr size_t kHead = 14;
  constexpr size_t kNumber = 4;
  constexpr size_t kBehindName = 5 * kNumber;
  constexpr uint32_t kDeflated = 0x1000;
  std::vector<File> files;
  size_t at = mark + kMark.size();
  if (Has(bytes, at, " ?>") || Has(bytes, at, "\n?>")) {
    at += 3;
    if (Has(bytes, at, "\r")) at++;
    if (Has(bytes, at, "\n")) at++;
  }
  if (at + kNumber > bytes.size() || Word(bytes, at) > bytes.size() - at - kNumber) return files;
  const Bytes list = bytes.subspan(at, kNumber + Word(bytes, at));
  uint64_t start = at + list.size();
  // Of a text or other data that its length stands before; false: the list ends before it does.
  size_t next = kHead;
  const auto pass = [&] {
    if (next > list.size() || list.size() - next < kNumber || Word(list, next) > list.size() - next - kNumber) return false;
    next += kNumber + Word(list, next);
    return true;
  };
  const bool is_there = pass() && pass();
  for (uint32_t left = is_there ? Word(list, 4) : 0; left > 0 && files.size() <= files_max && pass(); left--) {
    if (list.size() - next < kBehindName) break;
    const uint64_t size = std::min<uint64_t>(Word(list, next + 2 * kNumber), bytes.size() - start);
    const bool is_deflated = (Word(list, next + 4 * kNumber) & kDeflated) != 0;
    if (is_deflated && size > 0) files.push_back({static_cast<size_t>(start), static_cast<size_t>(size), true});
    start += size;
    next += kBehindName;
    if (!pass()) break;
  }
  read += next;
  return files;
}

// Behind a program, where a sector of a disk begins: flags, a mark, the size of a header and that of all.
std::optional<Installer> ReadNsis(Bytes bytes) {
  constexpr size_t kSector = 512;
  constexpr size_t kHead = 28;
  constexpr std::string_view kMark = "\xef\xbe\xad\xdeNullsoftInst";
  if (!Has(bytes, 0, "MZ")) return std::nullopt;
  for (size_t at = kSector; at + kHead < bytes.size(); at += kSector) {
    if (Has(bytes, at + 4, kMark)) return Installer{at + kHead, Word(bytes, at + 20)};
  }
  return std::nullopt;
}

std::optional<Modules> ModulesOf(Bytes bytes) {
  constexpr size_t kHead = 12;
  constexpr size_t kHeadMost = 32;
  if (!Has(bytes, 0, std::string_view("PYZ\0", 4)) || bytes.size() < kHead) return std::nullopt;
  const uint64_t list = HighNumber(bytes, 8, 4);
  const size_t at = TextOf(bytes.first(std::min(bytes.size(), kHeadMost))).find('x', kHead);
  return Modules{std::min(at, bytes.size()), list < bytes.size() ? static_cast<size_t>(list) : 0};
}

}  // namespace sluice::bundles
