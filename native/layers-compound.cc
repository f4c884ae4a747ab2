// SPDX-License-Identifier: GPL-2.0-only
// Streams of compound files that libclamav hasn't opened, or from other sectors, and what Office packs into them.
#include <algorithm>
#include <utility>

#include "compound.h"
#include "layers.h"
#include "macros.h"

namespace sluice::layers {

void Layers::NoteCompound(uint32_t level, Bytes bytes) {
  std::optional<compound::File> file = compound::File::Read(bytes, limits_.max_files);
  if (!file) return;
  has_compound_ = true;
  if (file->is_foreign()) NoteEnd(streams::End::kForeign, "compound file");
  if (file->is_damaged()) return NoteEnd(streams::End::kDamaged, "compound file");
  if (file->streams().size() > limits_.max_files) Mark(std::string(kLimit) + "MaxFiles");
  if (file->streamed_bytes() > bytes.size() && !Spend(file->streamed_bytes() - bytes.size())) return;
  Opened opened{level, bytes, {}, {}, {}};
  for (const compound::Stream& stream : file->streams()) {
    if (stream.size >= kSmallest) opened.streams[stream.size].push_back(stream);
  }
  if (opened.streams.empty()) return;
  opened.compound = std::make_unique<compound::File>(*std::move(file));
  if (level > 0) {
    streams::Output output(&opened.copy, limits_.max_scan_size_bytes, deadline_);
    if (!output.Put(bytes)) return NoteEnd(output.stopped(), "compound file");
    opened.bytes = opened.copy.bytes();
  }
  opened_.push_back(std::move(opened));
}

bool Layers::SettleCompound(Opened& above, Bytes bytes) {
  const auto alike = above.streams.find(bytes.size());
  if (alike == above.streams.end()) return false;
  auto& streams = alike->second;
  const auto same = std::ranges::find_if(streams, [&](const compound::Stream& stream) {
    if (above.compared_bytes > limits_.max_scan_size_bytes) return false;
    streams::Output output(bytes, deadline_);
    above.compound->Unpack(above.bytes, stream, output);
    // Its sectors are followed before the first of them is compared.
    above.compared_bytes += kTry + stream.size;
    return output.is_same();
  });
  if (same == streams.end()) return false;
  streams.erase(same);
  return true;
}

void Layers::UnpackCompound(const Opened& compound) {
  for (const auto& [size, streams] : compound.streams) {
    for (const compound::Stream& stream : streams) {
      Held held;
      streams::Output output(&held, now_.bytes_left, deadline_);
      compound.compound->Unpack(compound.bytes, stream, output);
      if (output.stopped() != streams::End::kWhole) return NoteEnd(output.stopped(), "compound file");
      Add(std::move(held));
    }
  }
}

// They lie in streams of compound files. In what has none of these nobody reads them, and programs look like them at many places.
bool Layers::NoteOffice(Bytes bytes, std::vector<zip::Member>& members) {
  if (!has_compound_) return true;
  NoteMacros(bytes);
  return NoteFiles(bytes, macros::ReadObjects(bytes, limits_.max_files), members);
}

// What libclamav makes of macros is one text of all modules, with words of its own between them: it can't be compared.
void Layers::NoteMacros(Bytes bytes) {
  for (size_t at = 0; now_.count <= limits_.max_files;) {
    Held held;
    streams::Output output(&held, now_.bytes_left, deadline_);
    const std::optional<size_t> next = macros::UnpackNext(bytes, at, output);
    if (!next) return;
    if (output.stopped() != streams::End::kWhole) return NoteEnd(output.stopped(), "macro");
    Add(std::move(held));
    at = *next;
  }
}

}  // namespace sluice::layers
