// SPDX-License-Identifier: GPL-2.0-only
// [MS-CAB] 2; TECHNOTE.TXT of ARJ 2.78; LHA's headers of the levels 0 to 3; compiled help by its magic and version; XAR's list of contents.
#include "listed.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string_view>

#include "streams.h"

namespace sluice::listed {
namespace {

Reading ReadCabinet(Bytes bytes) {
  constexpr size_t kHeader = 36;
  constexpr size_t kEntry = 16;
  Reading reading;
  if (bytes.size() < kHeader) return {{}, false, true, false};
  size_t at = Word(bytes, 16);
  for (uint32_t left = Half(bytes, 28); left > 0; left--) {
    const Bytes entry = bytes.subspan(std::min(at, bytes.size()));
    const void* end = entry.size() > kEntry ? std::memchr(entry.data() + kEntry, 0, entry.size() - kEntry) : nullptr;
    if (end == nullptr) {
      reading.is_cut = true;
      break;
    }
    reading.sizes.push_back(Word(entry, 0));
    at = static_cast<size_t>(static_cast<const uint8_t*>(end) - bytes.data()) + 1;
  }
  return reading;
}

constexpr std::string_view kArj = "\x60\xea";
constexpr size_t kArjBasic = 30;
constexpr size_t kArjBasicMost = 2600;
constexpr uint8_t kArjMain = 2;

// Two bytes are no magic: what they begin must be the header of an archive.
bool IsArj(Bytes bytes) {
  if (!Has(bytes, 0, kArj) || bytes.size() < 4 + kArjBasic || bytes[10] != kArjMain) return false;
  const uint32_t size = Half(bytes, 2);
  return size >= kArjBasic && size <= kArjBasicMost && bytes[4] >= kArjBasic && bytes[4] <= size;
}

Reading ReadArj(Bytes bytes) {
  constexpr uint8_t kEncrypted = 1;
  Reading reading;
  reading.is_cut = true;
  for (size_t at = 0; bytes.size() - at >= 4;) {
    const Bytes header = bytes.subspan(at);
    const uint32_t basic = Half(header, 2);
    reading.is_damaged = !Has(header, 0, kArj) || (basic > 0 && basic < kArjBasic);
    reading.is_cut = !reading.is_damaged && basic > 0;
    if (!reading.is_cut || header.size() < 4 + basic) break;
    const bool is_main = at == 0;
    const uint64_t packed = is_main ? 0 : Word(header, 16);
    if (!is_main && (header[8] & kEncrypted) != 0) reading.is_encrypted = true;
    else if (!is_main) reading.sizes.push_back(Word(header, 20));
    // Its sum, and further headers with theirs.
    size_t next = 4 + basic + 4;
    while (header.size() >= next + 2 && Half(header, next) > 0) next += 2 + Half(header, next) + 4;
    next += 2;
    if (header.size() < next || header.size() - next < packed) break;
    at += next + static_cast<size_t>(packed);
  }
  return reading;
}

constexpr size_t kLhaLeast = 22;

bool IsLha(Bytes bytes) {
  constexpr size_t kAt = 2;
  if (bytes.size() < kLhaLeast || bytes[kAt + 4] != '-' || bytes[20] > 3) return false;
  const Bytes method = bytes.subspan(kAt);
  return Has(method, 0, "-lh") || Has(method, 0, "-lz") || Has(method, 0, "-pm");
}

constexpr uint8_t kLhaLongHeaders = 2;
constexpr uint8_t kLhaLongestHeaders = 3;

// To the next header. Those of the levels 0 and 1 don't count their first two bytes.
uint64_t LengthInLha(Bytes header) {
  const uint64_t packed = Word(header, 7);
  if (header[20] < kLhaLongHeaders) return packed + 2 + header[0];
  if (header[20] < kLhaLongestHeaders) return packed + Half(header, 0);
  return packed + (header.size() < 28 ? header.size() : Word(header, 24));
}

Reading ReadLha(Bytes bytes) {
  Reading reading;
  for (size_t at = 0; IsLha(bytes.subspan(at));) {
    const Bytes header = bytes.subspan(at);
    const uint64_t next = LengthInLha(header);
    reading.is_damaged = next < kLhaLeast;
    if (reading.is_damaged) break;
    reading.sizes.push_back(Word(header, 11));
    reading.is_cut = next > header.size();
    if (next >= header.size()) break;
    at += static_cast<size_t>(next);
  }
  return reading;
}

// Among other bytes a method is no magic: the first header must be right, by its sum or, where it has none, by its sizes.
bool BeginsLha(Bytes bytes) {
  constexpr size_t kHeader = 28;
  constexpr size_t kExtended = 24;
  constexpr size_t kExtendedLeast = 3;
  if (!IsLha(bytes)) return false;
  if (bytes[20] < kLhaLongHeaders) {
    const size_t size = bytes[0];
    // A name behind its length; the oldest ones have no sum of the data behind it.
    if (size < kLhaLeast - 2 + bytes[21] || bytes.size() - 2 < size) return false;
    uint8_t sum = 0;
    for (const uint8_t byte : bytes.subspan(2, size)) sum += byte;
    return sum == bytes[1];
  }
  if (bytes.size() < kHeader || LengthInLha(bytes) > bytes.size()) return false;
  if (bytes[20] == kLhaLongestHeaders) return Half(bytes, 0) == 4 && Word(bytes, kExtended) >= kHeader;
  const uint32_t header = Half(bytes, 0);
  const uint32_t extended = Half(bytes, kExtended);
  return header >= kExtended + 2 && (extended == 0 || (extended >= kExtendedLeast && extended <= header - kExtended));
}

uint64_t NumberIn(std::string_view element, std::string_view tag) {
  const size_t at = std::min(element.find(tag), element.size());
  const std::string_view digits = element.substr(std::min(at + tag.size(), element.size()));
  uint64_t number = kAnySize;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

// Those of files and of their attributes, each as it is or by zlib or LZMA. By other methods libclamav hands it on packed.
void AddXarSizes(std::string_view list, std::string_view begin, std::string_view end, Reading& reading) {
  for (size_t at = list.find(begin); at != list.npos; at = list.find(begin, at)) {
    const std::string_view element = list.substr(at, list.find(end, at) - at);
    at += element.size();
    const bool has_data = element.find("<length>") != element.npos;
    const bool is_unpacked = element.find("/x-gzip\"") != element.npos || element.find("/x-lzma\"") != element.npos;
    if (has_data) reading.sizes.push_back(NumberIn(element, is_unpacked ? "<size>" : "<length>"));
  }
}

// A header with the list in zlib behind it. libclamav stops at the first thing that it doesn't expect there.
bool IsXar(Bytes bytes) { return Has(bytes, 0, "xar!") && Has(bytes, 6, std::string_view("\0\1", 2)); }

Reading ReadXar(Bytes bytes) {
  constexpr uint64_t kListMost = 16 << 20;
  constexpr std::chrono::seconds kPatience{1};
  Reading reading;
  Held held;
  streams::Output output(&held, kListMost, streams::Clock::now() + kPatience);
  const size_t header = std::min<size_t>(size_t{bytes[4]} << 8 | bytes[5], bytes.size());
  const streams::End end = streams::UnpackZlib(bytes.subspan(header), output);
  const std::string_view list = TextOf(held.bytes());
  reading.list_bytes = list.size();
  // What may hide an element, or make one.
  reading.is_damaged = end != streams::End::kWhole || list.find("<toc") == list.npos || list.find("<!") != list.npos;
  AddXarSizes(list, "<data", "</data>", reading);
  AddXarSizes(list, "<ea", "</ea>", reading);
  return reading;
}

}  // namespace

size_t SizeOfLha(Bytes bytes) {
  if (!BeginsLha(bytes)) return 0;
  size_t at = 0;
  while (IsLha(bytes.subspan(at))) {
    const uint64_t next = LengthInLha(bytes.subspan(at));
    if (next < kLhaLeast) break;
    if (next >= bytes.size() - at) return bytes.size();
    at += static_cast<size_t>(next);
  }
  // It ends with a zero.
  return at + 1;
}

Reading Read(Bytes bytes) {
  // Of version 1.3, as all are. What is reserved tools pass over.
  if (Has(bytes, 0, "MSCF") && (Has(bytes, 4, std::string_view("\0\0\0\0", 4)) || Has(bytes, 24, "\3\1"))) return ReadCabinet(bytes);
  // The version behind it is small.
  if (Has(bytes, 0, "ITSF") && Has(bytes, 5, std::string_view("\0\0\0", 3))) return {{kAnySize}, false, false, false};
  if (IsXar(bytes)) return ReadXar(bytes);
  if (IsLha(bytes)) return ReadLha(bytes);
  return IsArj(bytes) ? ReadArj(bytes) : Reading();
}

}  // namespace sluice::listed
