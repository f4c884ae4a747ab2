// SPDX-License-Identifier: GPL-2.0-only
// Compares what a layer holds with what libclamav makes of it.
#include "layers.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "archives.h"
#include "encoded.h"
#include "foreign.h"
#include "listed.h"
#include "members.h"
#include "seven-zip.h"
#include "zip.h"

namespace sluice::layers {
namespace {

using streams::Kind;

constexpr const char* kEncrypted = "Heuristics.Encrypted.Zip";
// A content can be wrong in as many ways as it has layers.
constexpr size_t kMarksKept = 16;

bool IsOpenedByLibclamav(Kind kind) { return kind == Kind::kGzip || kind == Kind::kBzip2 || kind == Kind::kXz; }

// A compound file, by the name of the entry that its directory begins with: libclamav opens it, and nothing is compressed that lies in it.
bool IsCompound(Bytes bytes) {
  constexpr size_t kHead = 512;
  constexpr uint16_t kSectorBitsMost = 12;
  if (bytes.size() < kHead || !Has(bytes, 0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") || Half(bytes, 30) > kSectorBitsMost) return false;
  const uint64_t directory = (uint64_t{Word(bytes, 48)} + 1) << Half(bytes, 30);
  return Has(bytes, static_cast<size_t>(directory), std::string_view("R\0o\0o\0t", 7));
}

// A second stream begins with the block that its first one would have, or with its end.
bool HasMoreBzip2(Bytes bytes) {
  constexpr size_t kHeader = 4;
  for (size_t at = 1; at < bytes.size();) {
    const void* found = memmem(bytes.data() + at, bytes.size() - at, "BZh", 3);
    if (found == nullptr) return false;
    at = static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes.data());
    const Bytes rest = bytes.subspan(at);
    constexpr uint8_t kBlock[] = {0x31, 0x41, 0x59, 0x26, 0x53, 0x59};
    constexpr uint8_t kEnd[] = {0x17, 0x72, 0x45, 0x38, 0x50, 0x90};
    if (rest.size() >= kHeader + sizeof kBlock && (std::memcmp(rest.data() + kHeader, kBlock, sizeof kBlock) == 0 ||
                                                   std::memcmp(rest.data() + kHeader, kEnd, sizeof kEnd) == 0)) {
      return true;
    }
    at++;
  }
  return false;
}

// One stream, since a second one would begin somewhere. Tools get nothing else out of it than libclamav does, which uses the same library.
bool IsSingleGzip(Bytes bytes) {
  constexpr size_t kLeast = 18;
  constexpr uint8_t kMagic[] = {0x1f, 0x8b, 8};
  return bytes.size() >= kLeast && memmem(bytes.data() + 1, bytes.size() - 1, kMagic, sizeof kMagic) == nullptr;
}

// The first bytes tell streams apart. Nothing: it is too small for libclamav to look at.
std::optional<uint64_t> BeginningOf(Bytes bytes) {
  if (bytes.size() < kSmallest) return std::nullopt;
  uint64_t beginning = 0;
  std::memcpy(&beginning, bytes.data(), std::min(bytes.size(), sizeof beginning));
  return beginning;
}

std::optional<uint64_t> BeginningInZlib(Bytes data) {
  std::array<uint8_t, sizeof(uint64_t)> first;
  return BeginningOf(Bytes(first).first(streams::BeginZlib(data, first)));
}

}  // namespace

void Layers::Begin() {
  inners_.erase(inners_.begin() + static_cast<ptrdiff_t>(before_.inners), inners_.end());
  marks_.resize(before_.marks);
  expected_.clear();
  opened_.clear();
  again_below_ = kNowhere;
  now_ = before_;
}

void Layers::Note(uint32_t level, Bytes bytes) {
  if (!expected_.empty()) Settle(level, bytes.size());
  if (!opened_.empty()) SettleOpened(level, bytes);
  if (level > again_below_) return;
  again_below_ = kNowhere;
  if (bytes.size() < kSmallest) return;
  // By its first bytes: others anybody can put anywhere.
  bool is_container = IsCompound(bytes);
  if (const Kind kind = streams::KindOf(bytes); kind != Kind::kNone) {
    is_container = !streams::MayBeOther(kind, bytes);
    NoteStreams(kind, level, bytes);
  }
  // Lists may be packed well, and each archive has one.
  if (now_.spare_bytes == 0) return;
  is_container = NoteSevenZip(level, bytes) || is_container;
  is_container = NoteListed(level, bytes) || is_container;
  NoteBesideArchive(level, bytes);
  for (const archives::Archive& archive : archives::Read(bytes)) {
    is_container = is_container || !archive.is_behind;
    NoteArchive(level, archive);
  }
  NoteCompound(level, bytes);
  NoteSigned(bytes);
  NoteMessage(bytes);
  NoteForeign(foreign::NameOf(bytes));
  NoteImage(level, bytes);
  NoteVolume(level, bytes);
  NotePartitions(level, bytes);
  // A script may begin so as well, and stand before, in or behind a zip.
  const bool begins_zip = Has(bytes, 0, "PK") && NoteZip(level, bytes);
  if (!begins_zip) NoteMarked(level, bytes, is_container);
  NoteOpticalDisk(bytes, is_container || begins_zip);
}

void Layers::NoteArchive(uint32_t level, const archives::Archive& archive) {
  if (archive.is_cut) NoteEnd(streams::End::kCut, archive.name);
  if (archive.is_damaged) NoteEnd(streams::End::kDamaged, archive.name);
  if (archive.is_foreign) NoteEnd(streams::End::kForeign, archive.name);
  for (const Bytes& member : archive.members) {
    // That they are too many has been said.
    if (now_.count > limits_.max_files || !AddPart(level, member, archive.name)) return;
  }
}

bool Layers::NoteSevenZip(uint32_t level, Bytes bytes) {
  std::vector<uint64_t> sizes;
  uint64_t list_bytes = 0;
  const seven_zip::Reading reading = seven_zip::Read(bytes, sizes, list_bytes);
  if (list_bytes > bytes.size()) Spend(list_bytes - bytes.size());
  if (reading == seven_zip::Reading::kForeign) NoteEnd(streams::End::kForeign, "7z");
  if (reading == seven_zip::Reading::kDamaged) NoteEnd(streams::End::kDamaged, "7z");
  if (reading == seven_zip::Reading::kOpened) Await(level, sizes);
  return reading != seven_zip::Reading::kNone;
}

bool Layers::NoteListed(uint32_t level, Bytes bytes) {
  const listed::Reading reading = listed::Read(bytes);
  if (reading.list_bytes > bytes.size()) Spend(reading.list_bytes - bytes.size());
  if (reading.is_encrypted) Mark(kEncrypted);
  if (reading.is_cut) Mark(kTruncated);
  if (reading.is_damaged) MarkIncomplete("damaged archive data");
  Await(level, reading.sizes);
  return !reading.sizes.empty() || reading.is_encrypted || reading.is_damaged;
}

void Layers::End(bool is_early) {
  if (!expected_.empty()) Settle(0, 0);
  if (is_early) return;
  while (!opened_.empty()) EndOpened();
}

// A layer has come: those that it isn't below of have ended, and the one above it has got what it was to get, or something else.
void Layers::Settle(uint32_t level, uint64_t size) {
  while (!expected_.empty() && expected_.back().level >= level) {
    const Expected missed = expected_.back();
    expected_.pop_back();
    if (!missed.has_come && missed.size >= kSmallest) NoteDifference(missed);
  }
  if (expected_.empty() || expected_.back().level + 1 != level || expected_.back().has_come) return;
  expected_.back().has_come = true;
  const Expected above = expected_.back();
  if (above.size != size) NoteDifference(above);
}

void Layers::NoteDifference(const Expected& expected) {
  if (expected.bytes.empty()) return MarkIncomplete("engine has not unpacked all of the compressed data");
  UnpackAgain(expected.kind, expected.level, expected.bytes);
}

void Layers::NoteStreams(Kind kind, uint32_t level, Bytes bytes) {
  if (!IsOpenedByLibclamav(kind)) return UnpackStreams(kind, bytes);
  if (kind == Kind::kBzip2 && HasMoreBzip2(bytes)) return UnpackAgain(kind, level, bytes);
  // The content itself stays where it is, and can be looked at later.
  const Bytes lasting = level == 0 ? bytes : Bytes();
  std::optional<uint64_t> size;
  if (kind == Kind::kXz) size = streams::SizeInXz(bytes);
  // The last four bytes say how much there is, if nothing is missing (RFC 1952).
  if (kind == Kind::kGzip && level == 0 && IsSingleGzip(bytes)) size = Word(bytes, bytes.size() - 4);
  if (size) return expected_.push_back({level, *size, false, kind, lasting});
  // Of filters libclamav has fewer.
  if (kind == Kind::kXz) return UnpackAgain(kind, level, bytes);
  streams::Output counted(nullptr, limits_.max_scan_size_bytes, deadline_);
  const streams::Unpacked unpacked = streams::Unpack(kind, bytes, counted);
  const bool is_opened_whole = unpacked.streams == 1 || (kind == Kind::kGzip && !unpacked.padded);
  if (unpacked.end == streams::End::kWhole && is_opened_whole) {
    expected_.push_back({level, counted.size(), false, kind, {}});
  } else if (unpacked.end == streams::End::kTooLarge || unpacked.end == streams::End::kLate) {
    NoteEnd(unpacked.end, NameOf(kind));
  } else {
    UnpackAgain(kind, level, bytes);
  }
}

// What libclamav makes of it is a part of that, and need not be compared.
void Layers::UnpackAgain(Kind kind, uint32_t level, Bytes bytes) {
  again_below_ = level;
  UnpackStreams(kind, bytes);
}

void Layers::UnpackStreams(Kind kind, Bytes bytes) {
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  const streams::Unpacked unpacked = streams::Unpack(kind, bytes, output);
  const bool is_whole_known = unpacked.streams > 0 || unpacked.end > streams::End::kForeign;
  if (is_whole_known || !streams::MayBeOther(kind, bytes) || output.size() >= kFew) NoteEnd(unpacked.end, NameOf(kind));
  Add(std::move(held));
}

bool Layers::NoteZip(uint32_t level, Bytes bytes) {
  const zip::Reading reading = zip::Read(bytes, limits_.max_files);
  if (!reading.is_zip) return false;
  NoteMembers(level, bytes, reading);
  // Where other bytes stand first, all of them are looked at together.
  if (!Has(bytes, 0, "PK")) return true;
  std::ranges::all_of(reading.between, [&](const Bytes& piece) { return AddPart(level, piece, "zip"); });
  return true;
}

void Layers::NoteMembers(uint32_t level, Bytes bytes, const zip::Reading& reading) {
  if (reading.is_cut) Mark(kTruncated);
  if (reading.is_too_many) Mark(std::string(kLimit) + "MaxFiles");
  if (!reading.contradiction.empty()) MarkIncomplete("a zip can be read in several ways: " + reading.contradiction);
  uint64_t bounded = 0;
  if (!Take(bytes, zip::BoundedBytes(reading), bounded)) return;
  NoteOpened(level, bytes, reading.opened);
  if (!NoteSaidEncrypted(bytes, reading)) return;
  if (std::ranges::any_of(reading.members, &zip::Member::is_encrypted)) Mark(kEncrypted);
  uint64_t taken = 0;
  for (const zip::Member& member : reading.members) {
    if (member.is_encrypted) continue;
    Held held;
    streams::Output output(&held, now_.bytes_left, deadline_);
    const std::optional<streams::End> end = members::Unpack(bytes.subspan(member.start, member.end - member.start), member, output);
    // Members without an end may hold each other.
    if (!member.is_bounded) taken += output.taken();
    if (taken > bytes.size() && !member.is_bounded && !Spend(output.taken())) return;
    if (reading.is_doubtful && (end == streams::End::kCut || end == streams::End::kDamaged)) {
      Add(std::move(held));
      continue;
    }
    if (!end) {
      MarkIncomplete("a member of a zip is compressed by method " + std::to_string(member.method));
      continue;
    }
    if (*end != streams::End::kCut) {
      NoteEnd(*end, "zip");
    } else if (!reading.is_cut) {
      NoteEnd(streams::End::kDamaged, "zip");
    }
    Add(std::move(held));
    if (*end == streams::End::kTooLarge || *end == streams::End::kLate || *end == streams::End::kNoRoom) return;
  }
}

// They are looked at later, where libclamav has not opened them: to unpack all of them once more would cost as much as it does.
void Layers::NoteOpened(uint32_t level, Bytes bytes, const std::vector<zip::Member>& members, std::vector<Held> unpacked) {
  Opened zip{level, bytes, {}, {}, {}};
  for (const zip::Member& member : members) {
    if (member.method == encoded::kZlib) {
      const std::optional<uint64_t> beginning = BeginningInZlib(bytes.subspan(member.start, member.end - member.start));
      if (beginning) zip.by_beginning[*beginning].push_back(member);
      continue;
    }
    // Inside of the content nothing can be wrong with what is stored.
    const bool is_passed_over = member.is_encrypted || member.unpacked < kSmallest || (level > 0 && member.method == 0);
    if (!is_passed_over) zip.by_size[member.unpacked].members.push_back(member);
  }
  for (Held& one : unpacked) {
    const size_t size = one.bytes().size();
    if (size >= kSmallest) zip.unpacked[size].push_back(std::move(one));
  }
  const bool has_members = !zip.by_size.empty() || !zip.by_beginning.empty();
  if (!has_members && zip.unpacked.empty()) return;
  if (level > 0 && has_members) {
    streams::Output output(&zip.copy, limits_.max_scan_size_bytes, deadline_);
    if (!output.Put(bytes)) return NoteEnd(output.stopped(), "zip");
    zip.bytes = zip.copy.bytes();
  }
  opened_.push_back(std::move(zip));
}

// Nothing here can unpack them. Beyond the limit libclamav says itself that it has not looked.
void Layers::Await(uint32_t level, const std::vector<uint64_t>& sizes) {
  constexpr uint16_t kByNobody = UINT16_MAX;
  Opened archive{level, {}, {}, {}, {}};
  uint32_t left = limits_.max_files;
  for (const uint64_t size : sizes) {
    if (size < kSmallest) continue;
    if (left-- == 0) break;
    archive.by_size[size].members.push_back({kByNobody, false, false, 0, 0, size, true});
  }
  if (!archive.by_size.empty()) opened_.push_back(std::move(archive));
}

// A layer has come: archives that it isn't inside of have ended, and it may be a member of the one that it is in.
void Layers::SettleOpened(uint32_t level, Bytes bytes) {
  while (!opened_.empty() && opened_.back().level >= level) EndOpened();
  // One layer may be several archives: a compound file has a zip inside.
  for (auto above = opened_.rbegin(); above != opened_.rend() && above->level + 1 == level; ++above) {
    if (SettleIn(*above, bytes)) return;
  }
}

bool Layers::SettleIn(Opened& above, Bytes bytes) {
  if (SettleStream(above, bytes) || SettleUnpacked(above, bytes) || SettleCompound(above, bytes)) return true;
  for (const uint64_t one : {uint64_t{bytes.size()}, listed::kAnySize}) {
    const auto alike = above.by_size.find(one);
    if (alike == above.by_size.end() || alike->second.seen == alike->second.members.size()) continue;
    const zip::Member& member = alike->second.members[alike->second.seen];
    alike->second.is_other = alike->second.is_other || (encoded::IsMethod(member.method) && !IsSame(above, member, bytes));
    if (!alike->second.is_other) ++alike->second.seen;
    return true;
  }
  return false;
}

// Most are opened in the order in which they stand.
bool Layers::SettleStream(Opened& above, Bytes bytes) {
  const std::optional<uint64_t> beginning = BeginningOf(bytes);
  const auto alike = beginning ? above.by_beginning.find(*beginning) : above.by_beginning.end();
  if (alike == above.by_beginning.end()) return false;
  auto& streams = alike->second;
  const auto same = std::ranges::find_if(streams, [&](const zip::Member& stream) { return IsSame(above, stream, bytes); });
  if (same == streams.end()) return false;
  streams.erase(same);
  return true;
}

// A text may have other members that are as long. What takes too long to compare is looked at once more.
bool Layers::IsSame(Opened& above, const zip::Member& member, Bytes bytes) {
  if (above.compared_bytes > limits_.max_scan_size_bytes) return false;
  streams::Output output(bytes, deadline_);
  members::Unpack(above.bytes.subspan(member.start, member.end - member.start), member, output);
  above.compared_bytes += kTry + output.size();
  return output.is_same();
}

void Layers::EndOpened() {
  Opened archive = std::move(opened_.back());
  opened_.pop_back();
  for (const auto& [size, alike] : archive.by_size) {
    if (alike.seen == alike.members.size()) continue;
    for (const zip::Member& member : alike.members) UnpackOpened(archive.bytes, member);
  }
  for (const auto& [beginning, streams] : archive.by_beginning) {
    for (const zip::Member& member : streams) UnpackOpened(archive.bytes, member);
  }
  UnpackCompound(archive);
  for (auto& [size, contents] : archive.unpacked) {
    for (Held& content : contents) Add(std::move(content));
  }
}

void Layers::UnpackOpened(Bytes bytes, const zip::Member& member) {
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  const std::optional<streams::End> end = members::Unpack(bytes.subspan(member.start, member.end - member.start), member, output);
  if (!end) return MarkIncomplete("engine has not unpacked all of the compressed data");
  const bool is_of_zip = !encoded::IsMethod(member.method);
  if (is_of_zip || *end > streams::End::kForeign) NoteEnd(*end == streams::End::kCut ? streams::End::kDamaged : *end, "zip");
  const bool is_spelled = member.method == encoded::kBase64 || member.method == encoded::kReversedBase64;
  Add(std::move(held), is_spelled ? Origin::kSpelled : Origin::kPacked);
}

void Layers::NoteForeign(const char* name) {
  if (name != nullptr) MarkIncomplete(std::string("engine cannot unpack ") + name);
}

void Layers::NoteEnd(streams::End end, const char* what) {
  switch (end) {
    case streams::End::kWhole:
      return;
    case streams::End::kCut:
      return Mark(kTruncated);
    case streams::End::kDamaged:
      return MarkIncomplete(std::string("damaged ") + what + " data");
    case streams::End::kForeign:
      return MarkIncomplete(std::string("engine cannot unpack this kind of ") + what + " data");
    case streams::End::kTooLarge:
      return Mark(std::string(kLimit) + "MaxScanSize");
    case streams::End::kLate:
      return Mark(std::string(kLimit) + "MaxScanTime");
    case streams::End::kNoRoom:
      now_.lacked_room = true;
  }
}

void Layers::Add(Held held, Origin origin) {
  const size_t size = held.bytes().size();
  if (size < kSmallest) return;
  if (depth_ + 1 > limits_.max_recursion) return Mark(std::string(kLimit) + "MaxRecursion");
  if (++now_.count > limits_.max_files) return Mark(std::string(kLimit) + "MaxFiles");
  now_.bytes_left -= std::min<uint64_t>(size, now_.bytes_left);
  held.Finish();
  inners_.push_back({std::move(held), depth_ + 1, origin});
}

// False: it isn't looked at, and that has been said. What lies behind an archive may be read in two ways, and so on: of parts of parts a share is spent,
// which is enough for as many in a row as there may be.
bool Layers::AddPart(uint32_t level, Bytes part, const char* what) {
  constexpr size_t kShare = 4;
  if (level == 0 && origin_ == Origin::kPart && !Spend(part.size() / kShare)) return false;
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  if (!output.Put(part)) {
    NoteEnd(output.stopped(), what);
    return false;
  }
  Add(std::move(held), Origin::kPart);
  return true;
}

// False: there is none left, and that has been said. The last byte is none that may be spent: without any, nothing more is looked at.
bool Layers::Spend(uint64_t bytes) {
  const bool is_enough = bytes < now_.spare_bytes;
  now_.spare_bytes -= std::min(bytes, now_.spare_bytes);
  if (!is_enough) MarkIncomplete("too much of it only looks packed, or lies in several archives");
  return is_enough;
}

void Layers::Mark(std::string name) {
  if (marks_.size() >= kMarksKept || std::find(marks_.begin(), marks_.end(), name) != marks_.end()) return;
  marks_.push_back(std::move(name));
}

std::optional<Inner> Layers::Next() {
  if (inners_.empty()) return std::nullopt;
  const bool is_late = streams::Clock::now() >= deadline_;
  if (is_late) Mark(std::string(kLimit) + "MaxScanTime");
  if (is_late || now_.spare_bytes == 0) {
    inners_.clear();
    return std::nullopt;
  }
  Inner next = std::move(inners_.back());
  inners_.pop_back();
  depth_ = next.depth;
  origin_ = next.origin;
  now_.inners = inners_.size();
  now_.marks = marks_.size();
  before_ = now_;
  return next;
}

}  // namespace sluice::layers
