// SPDX-License-Identifier: GPL-2.0-only
// Files in bundles and installers, members of zips that are encrypted by name only, and messages of OpenPGP and CMS.
#include <algorithm>
#include <string_view>
#include <utility>

#include "bundles.h"
#include "cms.h"
#include "encoded.h"
#include "layers.h"
#include "members.h"
#include "openpgp.h"

namespace sluice::layers {

void Layers::NoteSigned(Bytes bytes) {
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  if (const std::optional<streams::End> end = cms::Unpack(bytes, output)) NoteEnd(*end, "CMS");
  Add(std::move(held));
}

void Layers::NoteMessage(Bytes bytes) {
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  const openpgp::Reading reading = openpgp::Read(bytes, output);
  if (reading.is_encrypted) Mark("Sluice.Mark.Encrypted.OpenPGP");
  // What is cut or has a wrong sum the tools write as far as it goes.
  if (!reading.has_content && !openpgp::BeginsMessage(held.bytes())) {
    Spend(output.size());
    return;
  }
  NoteEnd(reading.end, "OpenPGP");
  Add(std::move(held));
}

// A gzip has room for a name, a comment and others before its stream, where a script may stand; and cabextract opens all cabinets of a file.
void Layers::NoteBesideArchive(uint32_t level, Bytes bytes) {
  constexpr size_t kHead = 10;
  constexpr size_t kNameMost = 64;
  if (streams::KindOf(bytes) == streams::Kind::kGzip && bytes.size() > kHead + 2) {
    const uint8_t has = bytes[3];
    size_t end = kHead;
    if ((has & 4) != 0) end += 2 + size_t{Half(bytes, kHead)};
    for (const int text : {8, 16}) {
      if ((has & text) != 0) end = std::min(TextOf(bytes).find('\0', std::min(end, bytes.size())), bytes.size() - 1) + 1;
    }
    end = std::min(end, bytes.size());
    if (end > kHead + kNameMost) AddPart(level, bytes.subspan(kHead, end - kHead), "gzip");
  }
  constexpr std::string_view kMagic("MSCF\0\0\0\0", 8);
  constexpr size_t kCabinet = 36;
  if (bytes.size() < kCabinet || !Has(bytes, 0, kMagic)) return;
  const size_t next = TextOf(bytes).find(kMagic, std::max<size_t>(kCabinet, Word(bytes, 8)));
  if (next != std::string_view::npos) AddPart(level, bytes.subspan(next), "cabinet");
}

// What parts of these bytes take altogether: as much as there is for nothing, since they lie beside each other, and what is beyond that is spent.
bool Layers::Take(Bytes bytes, uint64_t count, uint64_t& taken) {
  const uint64_t before = std::max<uint64_t>(taken, bytes.size());
  taken += count;
  return taken <= before || Spend(taken - before);
}

// False: they lie in each other, again and again. `taken` is of all lists of these bytes.
bool Layers::NoteFiles(Bytes bytes, const std::vector<bundles::File>& files, std::vector<zip::Member>& members, uint64_t& taken) {
  uint64_t size = 0;
  for (const bundles::File& file : files) {
    size += file.size;
    const uint16_t method = file.is_packed ? encoded::kZlib : encoded::kAsItIs;
    members.push_back({method, false, false, file.start, file.start + file.size, file.is_packed ? 0 : file.size, true});
  }
  return Take(bytes, size, taken);
}

// Any number of marks may say that one list is theirs.
bool Layers::NotePyInstaller(Bytes bytes, size_t mark, std::vector<zip::Member>& members, uint64_t& taken) {
  if (members.size() > limits_.max_files) return true;
  uint64_t read = 0;
  const std::vector<bundles::File> files = bundles::ReadPyInstaller(bytes, mark, limits_.max_files, read);
  return Take(bytes, read, taken) && NoteFiles(bytes, files, members, taken);
}

bool Layers::NotePhar(Bytes bytes, size_t mark, uint64_t& taken) {
  uint64_t read = 0;
  const std::vector<bundles::File> files = bundles::ReadPhar(bytes, mark, limits_.max_files, read);
  if (!Take(bytes, read, taken)) return false;
  for (const bundles::File& file : files) {
    if (!Take(bytes, file.size, taken)) return false;
    Held held;
    streams::Output output(&held, now_.bytes_left, deadline_);
    const streams::End end = streams::UnpackDeflate(bytes.subspan(file.start, file.size), output);
    NoteEnd(end, "phar");
    Add(std::move(held));
    if (end > streams::End::kForeign || now_.count > limits_.max_files) break;
  }
  return true;
}

// Android installs a package whose members are said to be encrypted and are not. What is encrypted is longer, or no stream of the size that is said.
bool Layers::NoteSaidEncrypted(Bytes bytes, const zip::Reading& reading) {
  for (const auto* members : {&reading.members, &reading.opened}) {
    for (const zip::Member& member : *members) {
      if (!member.is_encrypted) continue;
      Held held;
      streams::Output output(&held, now_.bytes_left, deadline_);
      const auto end = members::Unpack(bytes.subspan(member.start, member.end - member.start), member, output);
      if (end == streams::End::kWhole && output.size() == member.unpacked) Add(std::move(held));
      else if (!Spend(output.size())) return false;
    }
  }
  return true;
}

// As one text: none of them has a head of its own.
void Layers::NoteModules(Bytes bytes) {
  const std::optional<bundles::Modules> modules = bundles::ModulesOf(bytes);
  if (!modules) return;
  // Its mark and a version, where the list is, and whether they are encrypted.
  constexpr size_t kHead = 17;
  size_t at = modules->start;
  Held held;
  while (at < bytes.size() && bytes[at] == 'x') {
    streams::Output output(&held, now_.bytes_left - held.bytes().size(), deadline_);
    const streams::End end = streams::UnpackZlib(bytes.subspan(at), output);
    if (end > streams::End::kForeign) return NoteEnd(end, "PYZ");
    if (end != streams::End::kWhole) break;
    at += static_cast<size_t>(output.taken());
  }
  // Python finds each where the list says.
  if (at < modules->list || (modules->list > kHead && held.bytes().empty())) NoteEnd(streams::End::kForeign, "PYZ");
  Add(std::move(held));
}

// In one stream by deflate, with a size before each file, libclamav doesn't find them.
void Layers::NoteInstaller(Bytes bytes) {
  constexpr size_t kSize = 4;
  const std::optional<bundles::Installer> installer = bundles::ReadNsis(bytes);
  if (!installer) return;
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  const streams::End end = streams::UnpackDeflate(bytes.subspan(installer->start), output);
  const Bytes all = held.bytes();
  if (all.size() < kSize || Word(all, 0) != installer->header_size) {
    Spend(output.size());
    return;
  }
  NoteEnd(end, "NSIS");
  const uint64_t left = now_.bytes_left;
  for (size_t at = 0; all.size() - at > kSize && now_.count <= limits_.max_files;) {
    const Bytes rest = all.subspan(at + kSize);
    const Bytes file = rest.first(std::min<size_t>(Word(all, at), rest.size()));
    Held copy;
    streams::Output put(&copy, now_.bytes_left, deadline_);
    if (!put.Put(file)) return NoteEnd(put.stopped(), "NSIS");
    Add(std::move(copy));
    at += kSize + file.size();
  }
  // What is in no file, as are sizes of nothing, has been unpacked as well.
  const uint64_t added = left - now_.bytes_left;
  if (all.size() > added) Spend(all.size() - added);
}

}  // namespace sluice::layers
