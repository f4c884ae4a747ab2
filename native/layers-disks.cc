// SPDX-License-Identifier: GPL-2.0-only
// Images of disks and file systems, where libclamav does not open all of them.
#include <utility>

#include "dmg.h"
#include "encoded.h"
#include "layers.h"
#include "volumes.h"

namespace sluice::layers {

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
