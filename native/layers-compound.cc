// SPDX-License-Identifier: GPL-2.0-only
// Streams of compound files that libclamav hasn't opened, or from other sectors, and what Office packs into them.
#include <algorithm>
#include <utility>

#include "compound.h"
#include "layers.h"
#include "macros.h"
#include "office-encryption.h"

namespace sluice::layers {

void Layers::NoteCompound(uint32_t level, Bytes bytes) {
  std::optional<compound::File> file = compound::File::Read(bytes, limits_.max_files);
  if (!file) return;
  has_compound_ = true;
  if (file->is_foreign()) NoteEnd(streams::End::kForeign, "compound file");
  if (file->is_damaged()) return NoteEnd(streams::End::kDamaged, "compound file");
  if (file->streams().size() > limits_.max_files) Mark(std::string(kLimit) + "MaxFiles");
  if (file->streamed_bytes() > bytes.size() && !Spend(file->streamed_bytes() - bytes.size())) return;
  NoteLocked(bytes, *file);
  NoteWorkbooks(bytes, *file);
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

// Whatever else is true of it, what isn't known here may open without a password.
void Layers::NoteLocked(Bytes bytes, const compound::File& file) {
  if (file.locks().empty() || file.packages().empty()) return;
  const bool is_one = file.locks().size() == 1 && file.packages().size() == 1;
  Held info;
  streams::Output info_output(&info, now_.bytes_left, deadline_);
  file.Unpack(bytes, file.locks().front(), info_output);
  const std::optional<office::Lock> lock = is_one ? office::ReadLock(info.bytes()) : std::nullopt;
  if (!lock) return NoteForeign("documents of Office that are encrypted so");
  const std::vector<uint8_t>* key = KeyOf(info.bytes(), *lock);
  if (key == nullptr) return MarkIncomplete("too many documents of Office in it are encrypted");
  if (key->empty()) return;
  Held package;
  streams::Output package_output(&package, now_.bytes_left, deadline_);
  file.Unpack(bytes, file.packages().front(), package_output);
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  NoteEnd(office::Decrypt(package.bytes(), *lock, *key, output), "Office");
  Add(std::move(held));
}

// As the whole that libclamav knows.
void Layers::NoteWorkbooks(Bytes bytes, const compound::File& file) {
  std::vector<uint8_t> whole;
  for (const compound::Stream& workbook : file.workbooks()) {
    const std::vector<compound::Piece> pieces = file.PiecesOf(bytes, workbook);
    std::vector<uint8_t> stream;
    for (const compound::Piece& piece : pieces) {
      if (piece.start + piece.size > bytes.size()) break;
      const auto start = bytes.begin() + static_cast<ptrdiff_t>(piece.start);
      stream.insert(stream.end(), start, start + static_cast<ptrdiff_t>(piece.size));
    }
    const office::Workbook found = office::Open(stream);
    if (found == office::Workbook::kLocked) Mark("Sluice.Mark.Encrypted.Workbook");
    if (found != office::Workbook::kOpened) continue;
    if (whole.empty()) whole.assign(bytes.begin(), bytes.end());
    Bytes left(stream);
    for (size_t index = 0; !left.empty(); index++) {
      const auto size = static_cast<size_t>(pieces[index].size);
      std::copy_n(left.begin(), size, whole.begin() + static_cast<ptrdiff_t>(pieces[index].start));
      left = left.subspan(size);
    }
  }
  if (whole.empty()) return;
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  if (!output.Put(whole)) return NoteEnd(output.stopped(), "compound file");
  Add(std::move(held));
}

// A content is looked at several times. Null: there were too many before it.
const std::vector<uint8_t>* Layers::KeyOf(Bytes info, const office::Lock& lock) {
  const std::string said(TextOf(info));
  if (const auto known = keys_.find(said); known != keys_.end()) return &known->second;
  if (lock.spins > spins_left_ || streams::Clock::now() >= deadline_) return nullptr;
  spins_left_ -= lock.spins;
  return &keys_.emplace(said, office::OpenLock(lock)).first->second;
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
bool Layers::NoteOffice(Bytes bytes, std::vector<zip::Member>& members, uint64_t& taken) {
  if (!has_compound_) return true;
  NoteMacros(bytes);
  return NoteFiles(bytes, macros::ReadObjects(bytes, limits_.max_files), members, taken);
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
