// SPDX-License-Identifier: GPL-2.0-only
#include "compound.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace sluice::compound {
namespace {

// Of a sector; numbers from here on say that there is none.
constexpr uint32_t kNone = 0xfffffffa;
constexpr size_t kHead = 512;
constexpr size_t kEntry = 128;
constexpr uint16_t kSectorBitsLeast = 9;
constexpr uint16_t kSectorBitsMost = 12;
constexpr uint16_t kSmallBits = 6;
constexpr uint32_t kCutoff = 4096;
constexpr size_t kNumber = sizeof(uint32_t);

// In wide letters of either case.
bool IsNamed(Bytes entry, std::string_view name) {
  constexpr uint8_t kLower = 0x20;
  if (Half(entry, 64) != 2 * (name.size() + 1)) return false;
  for (size_t at = 0; at < name.size(); at++) {
    if ((entry[2 * at] | kLower) != (name[at] | kLower) || entry[2 * at + 1] != 0) return false;
  }
  return true;
}

}  // namespace

// An entry of a table whose sectors are these. Nothing is said beyond the end of the file.
uint32_t File::NumberIn(Bytes bytes, const std::vector<uint32_t>& table, uint32_t index) const {
  const size_t numbers = sector_bytes() / kNumber;
  if (index / numbers >= table.size()) return kNone;
  const uint64_t at = PlaceOf(table[index / numbers]) + index % numbers * kNumber;
  return at + kNumber <= bytes.size() ? Word(bytes, static_cast<size_t>(at)) : kNone;
}

uint32_t File::Next(Bytes bytes, const Stream& stream, uint32_t sector) const {
  return NumberIn(bytes, stream.is_small ? small_table_ : table_, sector);
}

// Nothing: it lies outside of the file.
std::optional<uint64_t> File::PlaceOf(const Stream& stream, uint32_t sector) const {
  if (!stream.is_small) return sector < sectors_ ? std::optional(PlaceOf(sector)) : std::nullopt;
  const uint16_t bits = sector_bits_ - kSmallBits;
  const uint32_t index = sector >> bits;
  if (index >= small_.size()) return std::nullopt;
  return PlaceOf(small_[index]) + ((sector & ((1U << bits) - 1)) << kSmallBits);
}

// No longer than the file, whose sectors may be in a circle.
std::vector<uint32_t> File::ChainOf(Bytes bytes, uint32_t first) const {
  std::vector<uint32_t> chain;
  for (uint32_t sector = first; sector < sectors_ && chain.size() < sectors_; sector = NumberIn(bytes, table_, sector)) chain.push_back(sector);
  return chain;
}

// Its sectors: 109 are named in the head, the others in sectors that name each other at their end.
void File::ReadTable(Bytes bytes) {
  constexpr size_t kNamed = 76;
  for (size_t at = kNamed; at < kHead; at += kNumber) {
    if (const uint32_t sector = Word(bytes, at); sector < sectors_) table_.push_back(sector);
  }
  uint64_t left = sectors_;
  for (uint32_t list = Word(bytes, 68); list < sectors_ && left > 0; left--) {
    const uint64_t start = PlaceOf(list);
    const size_t last = sector_bytes() - kNumber;
    if (start + sector_bytes() > bytes.size()) return;
    const Bytes numbers = bytes.subspan(static_cast<size_t>(start), sector_bytes());
    for (size_t at = 0; at < last && table_.size() < sectors_; at += kNumber) {
      if (const uint32_t sector = Word(numbers, at); sector < sectors_) table_.push_back(sector);
    }
    list = Word(numbers, last);
  }
}

// Of each stream it is counted how many sectors follow each other: libclamav takes no more of it either.
bool File::AddStream(Bytes bytes, Stream stream) {
  const size_t unit = stream.is_small ? size_t{1} << kSmallBits : sector_bytes();
  uint64_t there = 0;
  for (uint32_t sector = stream.first; there < stream.size && steps_left_ > 0 && PlaceOf(stream, sector); sector = Next(bytes, stream, sector)) {
    there += unit;
    steps_left_--;
  }
  stream.size = std::min(stream.size, there);
  streamed_bytes_ += stream.size;
  if (stream.size > 0) streams_.push_back(stream);
  return stream.size > 0;
}

void File::ReadDirectory(Bytes bytes, size_t streams_max) {
  constexpr uint8_t kStream = 2;
  const uint32_t cutoff = Word(bytes, 56);
  bool has_root = false;
  for (const uint32_t sector : ChainOf(bytes, Word(bytes, 48))) {
    const uint64_t start = PlaceOf(sector);
    for (uint64_t at = start; at < start + sector_bytes() && at + kEntry <= bytes.size(); at += kEntry) {
      if (streams_.size() > streams_max) return;
      const Bytes entry = bytes.subspan(static_cast<size_t>(at), kEntry);
      const uint32_t first = Word(entry, 116);
      if (!has_root) small_ = ChainOf(bytes, first);
      has_root = true;
      if (entry[66] != kStream) continue;
      // In small sectors the upper half of a size may be anything.
      const uint64_t size = sector_bits_ == kSectorBitsLeast ? Word(entry, 120) : Long(entry, 120);
      is_foreign_ = is_foreign_ || (size < cutoff) != (size < kCutoff);
      if (!AddStream(bytes, {first, size < cutoff, std::min<uint64_t>(size, bytes.size())})) continue;
      if (IsNamed(entry, "EncryptionInfo")) locks_.push_back(streams_.back());
      if (IsNamed(entry, "EncryptedPackage")) packages_.push_back(streams_.back());
      if (IsNamed(entry, "Workbook") || IsNamed(entry, "Book")) workbooks_.push_back(streams_.back());
    }
  }
}

std::optional<File> File::Read(Bytes bytes, size_t streams_max) {
  if (bytes.size() < kHead || !Has(bytes, 0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")) return std::nullopt;
  const uint16_t sector_bits = Half(bytes, 30);
  if (sector_bits < kSectorBitsLeast || sector_bits > kSectorBitsMost) return std::nullopt;
  File file(bytes, sector_bits);
  // A file whose streams lie beside each other has no more steps than small sectors.
  file.steps_left_ = 1 + 2 * (bytes.size() >> kSmallBits);
  file.is_foreign_ = Half(bytes, 32) != kSmallBits;
  file.ReadTable(bytes);
  file.small_table_ = file.ChainOf(bytes, Word(bytes, 60));
  file.ReadDirectory(bytes, streams_max);
  return file;
}

// Sectors that lie behind each other are taken together.
std::vector<Piece> File::PiecesOf(Bytes bytes, const Stream& stream) const {
  std::vector<Piece> pieces;
  const size_t unit = stream.is_small ? size_t{1} << kSmallBits : sector_bytes();
  uint64_t left = stream.size;
  uint32_t sector = stream.first;
  while (left > 0) {
    const std::optional<uint64_t> start = PlaceOf(stream, sector);
    if (!start) break;
    uint64_t count = 0;
    for (std::optional<uint64_t> place = start; count < left && place && *place == *start + count; place = PlaceOf(stream, sector)) {
      count += unit;
      sector = Next(bytes, stream, sector);
    }
    count = std::min(count, left);
    left -= count;
    pieces.push_back({*start, count});
  }
  return pieces;
}

// Where the file ends within a sector, libclamav has zeros.
void File::Unpack(Bytes bytes, const Stream& stream, streams::Output& output) const {
  static constexpr std::array<uint8_t, size_t{1} << kSectorBitsMost> kZeros = {};
  for (const Piece& piece : PiecesOf(bytes, stream)) {
    const uint64_t there = piece.start < bytes.size() ? std::min<uint64_t>(piece.size, bytes.size() - piece.start) : 0;
    if (there > 0 && !output.Put(bytes.subspan(static_cast<size_t>(piece.start), static_cast<size_t>(there)))) return;
    for (uint64_t missing = piece.size - there; missing > 0;) {
      const size_t zeros = static_cast<size_t>(std::min<uint64_t>(missing, kZeros.size()));
      if (!output.Put(Bytes(kZeros).first(zeros))) return;
      missing -= zeros;
    }
  }
}

}  // namespace sluice::compound
