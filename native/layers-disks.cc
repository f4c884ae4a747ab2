// SPDX-License-Identifier: GPL-2.0-only
// Images of disks and file systems, where libclamav does not open all of them.
#include <algorithm>
#include <string_view>
#include <utility>

#include "dmg.h"
#include "encoded.h"
#include "layers.h"
#include "volumes.h"

namespace sluice::layers {
namespace {

constexpr size_t kSector = 512;

}  // namespace

// A partition of HFS+ libclamav opens, if it has got it whole. In others it looks for file systems only.
void Layers::NoteImage(uint32_t level, Bytes bytes) {
  const dmg::Reading reading = dmg::Read(bytes);
  if (reading.is_foreign) NoteEnd(streams::End::kForeign, "DMG");
  bool has_opened = false;
  for (const std::vector<dmg::Piece>& pieces : reading.partitions) {
    if (!Spend(kTryOfOne * pieces.size())) return;
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

void Layers::NotePartition(Bytes bytes, uint64_t first_sector, uint64_t last_sector) {
  // The last sector may be a part of one.
  if (first_sector == 0 || first_sector >= (bytes.size() + kSector - 1) / kSector || last_sector < bytes.size() / kSector) return;
  const Bytes partition = bytes.subspan(static_cast<size_t>(first_sector) * kSector);
  if (!Spend(partition.size())) return;
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  if (!output.Put(partition)) return NoteEnd(output.stopped(), "disk");
  Add(std::move(held));
}

// libclamav passes over a partition that ends behind the content, or where its table says that none may be, and over what ends so in an extended one.
void Layers::NotePartitions(Bytes bytes) {
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
    const uint64_t first = Word(bytes, at + 8);
    const bool is_extended = kExtended.find(static_cast<char>(kind)) != kExtended.npos;
    if (kind != 0 && kind != kProtects) NotePartition(bytes, first, is_extended ? UINT64_MAX : first + Word(bytes, at + 12) - 1);
  }
  if (!Has(bytes, kSector, "EFI PART") || bytes.size() < 2 * kSector) return;
  constexpr uint64_t kGptEntryLeast = 128;
  const Bytes header = bytes.subspan(kSector, kSector);
  const uint64_t size = Word(header, 84);
  const uint64_t table = Long(header, 72);
  if (size < kGptEntryLeast || table >= bytes.size() / kSector) return;
  Bytes entries = bytes.subspan(static_cast<size_t>(table) * kSector);
  for (uint32_t left = std::min(Word(header, 80), limits_.max_files); left > 0 && entries.size() >= size; left--) {
    const uint64_t first = Long(entries, 32);
    const uint64_t last = Long(entries, 40);
    const bool is_usable = first >= Long(header, 40) && last <= Long(header, 48);
    NotePartition(bytes, first, is_usable ? last : UINT64_MAX);
    entries = entries.subspan(static_cast<size_t>(size));
  }
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
