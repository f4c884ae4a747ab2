// SPDX-License-Identifier: GPL-2.0-only
// ustar, with the sizes of GNU and of pax (POSIX.1-2001).
#include "tar.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

namespace sluice::tar {
namespace {

using streams::Bytes;

constexpr size_t kBlock = 512;
constexpr size_t kSizeAt = 124;
constexpr size_t kSizeDigits = 12;
constexpr size_t kSumAt = 148;
constexpr size_t kSumDigits = 8;
constexpr size_t kTypeAt = 156;
constexpr size_t kMagicAt = 257;
constexpr char kExtended = 'x';
constexpr uint8_t kBinary = 0x80;

std::string_view TextOf(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

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

}  // namespace

bool IsTar(Bytes bytes) {
  if (bytes.size() < kBlock) return false;
  return std::memcmp(bytes.data() + kMagicAt, "ustar", 5) == 0 || IsHeader(bytes.first(kBlock));
}

Reading Read(Bytes bytes) {
  Reading reading;
  std::optional<uint64_t> extended;
  size_t at = 0;
  while (bytes.size() - at >= kBlock && IsHeader(bytes.subspan(at, kBlock))) {
    const Bytes header = bytes.subspan(at, kBlock);
    const std::optional<uint64_t> own = SizeIn(header);
    const std::optional<uint64_t> size = extended ? extended : own;
    if (!size) break;
    const Bytes rest = bytes.subspan(at + kBlock);
    const Bytes data = rest.first(static_cast<size_t>(std::min<uint64_t>(*size, rest.size())));
    if (extended != std::nullopt || (header[kSizeAt] & kBinary) != 0) reading.unopened.push_back(data);
    extended = header[kTypeAt] == kExtended ? SizeInExtended(TextOf(data)) : std::nullopt;
    const uint64_t padded = (*size + kBlock - 1) / kBlock * kBlock;
    reading.is_cut = *size > rest.size();
    if (padded < *size || padded >= rest.size()) return reading;
    at += kBlock + static_cast<size_t>(padded);
  }
  const Bytes end = bytes.subspan(at, std::min(kBlock, bytes.size() - at));
  reading.is_damaged = std::any_of(end.begin(), end.end(), [](uint8_t byte) { return byte != 0; });
  // Behind it, one that begins with a whole header.
  for (at += kBlock; at < bytes.size() && bytes.size() - at >= kBlock; at += kBlock) {
    if (!IsHeader(bytes.subspan(at, kBlock))) continue;
    reading.unopened.push_back(bytes.subspan(at));
    break;
  }
  return reading;
}

}  // namespace sluice::tar
