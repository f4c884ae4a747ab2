// SPDX-License-Identifier: GPL-2.0-only
// Images of disks and file systems, where libclamav does not open all of them.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "dmg.h"
#include "encoded.h"
#include "layers.h"
#include "volumes.h"

namespace sluice::layers {
namespace {

constexpr size_t kSector = 512;

struct Partition {
  size_t start;
  size_t size;
  // All of it is there, where its table says, and no other table is inside.
  bool is_plain;
};

void AddPartition(Bytes bytes, size_t sector, uint64_t first, uint64_t count, bool may_be_plain, std::vector<Partition>& partitions) {
  const uint64_t sectors = bytes.size() / sector;
  // The last sector may be a part of one.
  if (first == 0 || first > sectors || first * sector >= bytes.size()) return;
  const auto start = static_cast<size_t>(first) * sector;
  const bool is_plain = may_be_plain && count > 0 && count <= sectors - first;
  partitions.push_back({start, is_plain ? static_cast<size_t>(count) * sector : bytes.size() - start, is_plain});
}

// The table of DOS.
void AddListed(Bytes bytes, std::vector<Partition>& partitions) {
  constexpr size_t kTable = 446;
  constexpr size_t kEntry = 16;
  constexpr size_t kEnd = 510;
  constexpr uint8_t kStarts = 0x80;
  // All of a disk that has a table of the other kind.
  constexpr uint8_t kProtects = 0xee;
  constexpr std::string_view kExtended = "\x05\x0f\x85";
  if (!Has(bytes, kEnd, "\x55\xaa")) return;
  for (size_t at = kTable; at < kEnd; at += kEntry) {
    if ((bytes[at] & ~kStarts) != 0) return;
  }
  for (size_t at = kTable; at < kEnd; at += kEntry) {
    const uint8_t kind = bytes[at + 4];
    const bool is_extended = kExtended.find(static_cast<char>(kind)) != kExtended.npos;
    const uint64_t first = Word(bytes, at + 8);
    const uint64_t count = Word(bytes, at + 12);
    // Some tools ask for a size alone. What has neither a kind nor room is no partition.
    const bool is_there = kind != 0 || (count > 0 && first + count <= bytes.size() / kSector);
    if (is_there && kind != kProtects) AddPartition(bytes, kSector, first, count, !is_extended, partitions);
  }
}

// UEFI, 5.3. Nothing is asked of its sums, nor of the other header: tools warn, and go on.
void AddListedByGpt(Bytes bytes, size_t sector, size_t header_at, uint32_t most, std::vector<Partition>& partitions) {
  constexpr size_t kHeader = 92;
  constexpr uint64_t kGptEntryLeast = 128;
  if (!Has(bytes, header_at, "EFI PART") || bytes.size() - header_at < kHeader) return;
  const Bytes header = bytes.subspan(header_at, kHeader);
  const uint64_t size = Word(header, 84);
  const uint64_t table = Long(header, 72);
  if (size < kGptEntryLeast || table >= bytes.size() / sector) return;
  Bytes entries = bytes.subspan(static_cast<size_t>(table) * sector);
  for (uint32_t left = std::min(Word(header, 80), most); left > 0 && entries.size() >= size; left--) {
    const uint64_t first = Long(entries, 32);
    const uint64_t last = Long(entries, 40);
    const bool is_usable = first >= Long(header, 40) && last <= Long(header, 48) && first <= last;
    AddPartition(bytes, sector, first, last - first + 1, is_usable, partitions);
    entries = entries.subspan(static_cast<size_t>(size));
  }
}

std::vector<Partition> PartitionsOf(Bytes bytes, uint32_t most) {
  constexpr size_t kSectorMost = 4096;
  std::vector<Partition> partitions;
  AddListed(bytes, partitions);
  for (size_t sector = kSector; sector <= kSectorMost && sector < bytes.size(); sector *= 2) {
    const size_t before = partitions.size();
    AddListedByGpt(bytes, sector, sector, most, partitions);
    // The other header is in the last sector.
    if (partitions.size() == before) AddListedByGpt(bytes, sector, (bytes.size() / sector - 1) * sector, most, partitions);
  }
  return partitions;
}

// libclamav takes for a page what has an element among its first bytes.
bool MayBePage(Bytes bytes) {
  constexpr size_t kHead = 1024;
  const std::string_view head = TextOf(bytes).substr(0, kHead);
  for (size_t at = head.find('<'); at != head.npos; at = head.find('<', at + 1)) {
    const char next = at + 1 < head.size() ? head[at + 1] : '\0';
    if (next == '!' || (next | 0x20) >= 'a') return true;
  }
  return false;
}

}  // namespace

// The first sectors of an optical disk by ISO 9660 are nobody's. Where they are an archive, or a page, libclamav opens that alone, and Windows the disk.
void Layers::NoteOpticalDisk(Bytes bytes, bool is_container) {
  constexpr size_t kFree = 32'768;
  if (!Has(bytes, kFree + 1, "CD001") || !(is_container || MayBePage(bytes))) return;
  constexpr std::array<uint8_t, kFree> kZeros{};
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  if (!output.Put(kZeros) || !output.Put(bytes.subspan(kFree))) return NoteEnd(output.stopped(), "disk");
  Add(std::move(held), Origin::kPart);
}

// A partition of HFS+ libclamav opens, if it has got it whole. In others it looks for file systems only.
void Layers::NoteImage(uint32_t level, Bytes bytes) {
  const dmg::Reading reading = dmg::Read(bytes);
  if (reading.is_foreign) NoteEnd(streams::End::kForeign, "DMG");
  bool has_opened = false;
  for (const std::vector<dmg::Piece>& pieces : reading.partitions) {
    // Pieces may lie in each other, and say nothing.
    uint64_t packed = 0;
    for (const dmg::Piece& piece : pieces) packed += piece.packed.size();
    if (!Spend(kTryOfOne * pieces.size() + (packed > bytes.size() ? packed - bytes.size() : 0))) return;
    Held held;
    streams::Output output(&held, now_.bytes_left, deadline_);
    const streams::End end = dmg::Unpack(pieces, output);
    NoteEnd(end, "DMG");
    if (end > streams::End::kForeign) return;
    if (has_opened || end != streams::End::kWhole || !volumes::IsHfsPlus(held.bytes())) {
      Add(std::move(held));
      continue;
    }
    has_opened = true;
    const size_t size = held.bytes().size();
    Opened opened{level, held.bytes(), std::move(held), {}, {}};
    opened.by_size[size].members.push_back({encoded::kAsItIs, false, false, 0, size, size, true});
    opened_.push_back(std::move(opened));
  }
}

// libclamav opens partitions, but for those that end behind the content or where their table may have none, for what ends so in an extended one, and
// for all of a table that it finds a fault with: tools take the others. So each is looked at here where libclamav has not opened it.
void Layers::NotePartitions(uint32_t level, Bytes bytes) {
  std::vector<zip::Member> members;
  uint64_t taken = 0;
  for (const Partition& partition : PartitionsOf(bytes, limits_.max_files)) {
    const Bytes inside = bytes.subspan(partition.start, partition.size);
    taken += inside.size();
    if ((!partition.is_plain || taken > bytes.size()) && !Spend(inside.size())) return;
    if (partition.is_plain) {
      members.push_back({encoded::kAsItIs, false, false, partition.start, partition.start + partition.size, partition.size, true});
      continue;
    }
    Held held;
    streams::Output output(&held, now_.bytes_left, deadline_);
    if (!output.Put(inside)) return NoteEnd(output.stopped(), "disk");
    Add(std::move(held));
  }
  NoteOpened(level, bytes, members);
}

// Most files are in one piece, and libclamav may open them. They may lie in each other.
void Layers::NoteVolume(uint32_t level, Bytes bytes) {
  const volumes::Reading reading = volumes::Read(bytes, limits_.max_files);
  if (reading.is_cut) Mark(kTruncated);
  if (reading.is_foreign) NoteEnd(streams::End::kForeign, "disk");
  if (reading.files.size() > limits_.max_files) Mark(std::string(kLimit) + "MaxFiles");
  uint64_t taken = 0;
  std::vector<zip::Member> members;
  for (const std::vector<volumes::Piece>& pieces : reading.files) {
    uint64_t size = 0;
    for (const volumes::Piece& piece : pieces) size += piece.size;
    taken += size;
    if (taken > bytes.size() && !Spend(size)) return;
    if (pieces.size() == 1) {
      const volumes::Piece& only = pieces.front();
      members.push_back({encoded::kAsItIs, false, false, only.start, only.start + only.size, only.size, true});
      continue;
    }
    Held held;
    streams::Output output(&held, now_.bytes_left, deadline_);
    for (const volumes::Piece& piece : pieces) {
      if (!output.Put(bytes.subspan(piece.start, piece.size))) return NoteEnd(output.stopped(), "disk");
    }
    Add(std::move(held));
  }
  NoteOpened(level, bytes, members);
}

}  // namespace sluice::layers
