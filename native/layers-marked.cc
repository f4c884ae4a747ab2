// SPDX-License-Identifier: GPL-2.0-only
// What stands among other bytes of a layer: it is found by marks, and may be something else.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "encoded.h"
#include "layers.h"
#include "marks.h"
#include "pdf.h"
#include "pdf-scripts.h"
#include "rtf.h"
#include "tnef.h"

namespace sluice::layers {
namespace {

// A text without a mark, as PowerShell takes it, or with the high byte first, as readers of XML do.
bool BeginsWide(Bytes bytes, bool is_high_first) {
  constexpr size_t kHead = 32;
  if (bytes.size() < kHead) return false;
  for (size_t at = 0; at < kHead; at += 2) {
    const uint8_t low = bytes[at + (is_high_first ? 1 : 0)];
    if (low < '\t' || low > '~' || bytes[at + (is_high_first ? 0 : 1)] != 0) return false;
  }
  return true;
}

}  // namespace

// What is neither an archive nor compressed may have one inside: scripts and programs unpack it, and 7z finds it. A zip may be anywhere.
void Layers::NoteMarked(uint32_t level, Bytes bytes, bool is_container) {
  encoded::Finder encoded(bytes, limits_.max_files);
  EmbeddedStreams streams;
  bool may_be_zip = false;
  uint64_t taken = 0;
  marks::Finder marks(bytes);
  while (const std::optional<marks::Mark> mark = marks.Next()) {
    may_be_zip = may_be_zip || zip::IsSign(bytes, *mark);
    if (is_container && may_be_zip) break;
    // A word may be the first one. What else stands there is known as that.
    if (is_container || (mark->at == 0 && mark->kind != marks::Kind::kBase64 && mark->kind != marks::Kind::kPhar)) continue;
    if (mark->kind == marks::Kind::kStream) {
      NoteEmbeddedStream(bytes, mark->at, streams);
    } else if (mark->kind == marks::Kind::kLzop) {
      // Programs that unpack it have its mark as well.
      if (encoded::IsText(bytes.first(mark->at))) NoteForeign("lzop");
    } else if (mark->kind == marks::Kind::kPyInstaller) {
      if (!NotePyInstaller(bytes, mark->at, encoded.members(), taken)) return;
    } else if (mark->kind == marks::Kind::kPhar) {
      if (!NotePhar(bytes, mark->at, taken)) return;
    } else {
      encoded.Meet(*mark);
    }
  }
  if (may_be_zip) NoteZip(level, bytes);
  if (is_container) return;
  NoteDeflated(level, bytes);
  NoteModules(bytes);
  NoteInstaller(bytes);
  if (!NoteFiles(bytes, bundles::Read(bytes, limits_.max_files), encoded.members(), taken)) return;
  if (!NoteOffice(bytes, encoded.members(), taken)) return;
  NoteSpelled(bytes, encoded);
  NoteWide(bytes);
  NoteEntities(bytes);
  for (const tnef::Attachment& attachment : tnef::Read(bytes, limits_.max_files)) encoded.AddArchive(attachment.start, attachment.size);
  if (encoded.has_odd_quotes()) MarkIncomplete("engine cannot decode quoted-printable with blanks where a line goes on");
  const uint64_t archived = encoded.archived_bytes();
  if (archived > bytes.size() && !Spend(archived - bytes.size())) return;
  constexpr size_t kActiveMime = 50;
  if (Has(bytes, 0, "ActiveMime") && bytes.size() > kActiveMime) {
    encoded.members().push_back({encoded::kZlib, false, false, kActiveMime, bytes.size(), 0, true});
  }
  std::vector<Held> unpacked;
  NotePdf(bytes, encoded.members(), unpacked);
  NoteScripts(bytes);
  NoteRtf(bytes, encoded.members());
  if (encoded.members().size() > limits_.max_files) Mark(std::string(kLimit) + "MaxFiles");
  NoteOpened(level, bytes, encoded.members(), std::move(unpacked));
}

// Scripts and pages in wide characters: those that have a narrow form. A shortcut has wide characters among others.
void Layers::NoteWide(Bytes bytes) {
  // Of four bytes the two high ones are zeros: what is left is looked at once more.
  const bool is_wider = Has(bytes, 0, std::string_view("\0\0\xfe\xff", 4));
  const bool is_high_first = is_wider || Has(bytes, 0, "\xfe\xff") || BeginsWide(bytes, true);
  const bool is_shortcut = Has(bytes, 0, std::string_view("L\0\0\0\1\x14\2\0", 8));
  if (!is_high_first && !is_shortcut && !Has(bytes, 0, "\xff\xfe") && !BeginsWide(bytes, false)) return;
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  std::array<uint8_t, 4096> narrow;
  size_t count = 0;
  for (size_t at = is_wider ? 4 : 0; at + 1 < bytes.size(); at += is_shortcut ? 1 : 2) {
    const uint8_t byte = bytes[at + (is_high_first ? 1 : 0)];
    if (is_shortcut ? byte == 0 : bytes[at + (is_high_first ? 0 : 1)] != 0) continue;
    narrow[count++] = byte;
    if (count < narrow.size()) continue;
    if (!output.Put(narrow)) return NoteEnd(output.stopped(), "text");
    count = 0;
  }
  if (!output.Put(Bytes(narrow).first(count))) return NoteEnd(output.stopped(), "text");
  Add(std::move(held));
}

void Layers::NoteEmbeddedStream(Bytes bytes, size_t at, EmbeddedStreams& before) {
  const Bytes rest = bytes.subspan(at);
  if (before.have_failed || at < before.end || !encoded::BeginsStream(rest)) return;
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  const streams::Unpacked unpacked = streams::Unpack(streams::KindOf(rest), rest, output);
  const bool is_one = unpacked.streams > 0;
  // One that begins inside of what is none may be the one.
  if (is_one) before.end = at + unpacked.consumed;
  before.have_failed = unpacked.end > streams::End::kForeign || now_.count > limits_.max_files;
  if (before.have_failed) return NoteEnd(unpacked.end, "embedded");
  before.have_failed = !Spend(is_one ? kTryOfOne : kTry + unpacked.consumed + output.size());
  if (before.have_failed) return;
  if (is_one || unpacked.end == streams::End::kCut || output.size() >= kFew) Add(std::move(held));
}

void Layers::NoteRtf(Bytes bytes, std::vector<zip::Member>& members) {
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  if (const std::optional<streams::End> end = rtf::UnpackBody(bytes, output)) NoteEnd(*end, "RTF");
  Add(std::move(held));
  const rtf::Reading reading = rtf::Read(bytes, limits_.max_files);
  if (reading.is_mixed) NoteForeign("objects of RTF in two spellings");
  for (const rtf::Object& object : reading.objects) {
    members.push_back({encoded::kObjectDigits, false, false, object.start, object.end, object.size, true});
  }
}

// Of a PDF, or of what it has packed.
void Layers::NoteScripts(Bytes bytes) {
  constexpr size_t kHead = 1024 + 5;
  has_pdf_ = has_pdf_ || TextOf(bytes).substr(0, kHead).find("%PDF-") != std::string_view::npos;
  if (!has_pdf_) return;
  NoteTexts(pdf::ReadScripts(TextOf(bytes), limits_.max_files));
}

void Layers::NoteTexts(const pdf::Scripts& scripts) {
  if (scripts.is_too_much) NoteEnd(streams::End::kForeign, "PDF");
  for (const std::vector<uint8_t>& text : scripts.texts) {
    Held held;
    streams::Output output(&held, now_.bytes_left, deadline_);
    if (!output.Put(text)) return NoteEnd(output.stopped(), "PDF");
    Add(std::move(held));
  }
}

// What has a predictor libclamav makes something else of.
void Layers::NotePdf(Bytes bytes, std::vector<zip::Member>& members, std::vector<Held>& unpacked) {
  const pdf::Reading reading = pdf::Read(bytes, limits_.max_files);
  if (reading.is_foreign) NoteEnd(streams::End::kForeign, "PDF");
  if (std::max(reading.streams.size(), reading.filtered.size()) > limits_.max_files) Mark(std::string(kLimit) + "MaxFiles");
  uint64_t length = 0;
  for (const pdf::Stream& stream : reading.streams) {
    // Others lie in each other, and are the same bytes again and again.
    length += stream.end - stream.start;
    if (length > bytes.size() + reading.excess) return NoteEnd(streams::End::kDamaged, "PDF");
    if (!stream.row) {
      members.push_back({encoded::kZlib, false, false, stream.start, stream.end, 0, true});
      continue;
    }
    Held held;
    streams::Output output(&held, now_.bytes_left, deadline_);
    const streams::End end = pdf::Unpack(bytes.subspan(stream.start, stream.end - stream.start), stream, output);
    if (end > streams::End::kForeign) return NoteEnd(end, "PDF");
    Add(std::move(held));
  }
  NoteFiltered(bytes, reading, unpacked);
  if (reading.encryption.text_cipher == pdf::Encryption::Cipher::kNone) return;
  NoteTexts(pdf::ReadEncryptedTexts(TextOf(bytes), reading.encryption, limits_.max_files));
}

// What libclamav makes of them is not looked at twice.
void Layers::NoteFiltered(Bytes bytes, const pdf::Reading& reading, std::vector<Held>& unpacked) {
  if (reading.excess > 0 && !Spend(reading.excess)) return;
  uint64_t length = 0;
  uint64_t left = now_.bytes_left;
  for (const pdf::FilteredStream& stream : reading.filtered) {
    length += stream.end - stream.start;
    // Each may be there twice, encrypted and as it is.
    if (length > 2 * bytes.size() + reading.excess) return NoteEnd(streams::End::kDamaged, "PDF");
    Held held;
    streams::Output output(&held, left, deadline_);
    uint64_t between = 0;
    const streams::End end = pdf::Unpack(bytes.subspan(stream.start, stream.end - stream.start), stream, reading.encryption, output, between);
    if (end > streams::End::kForeign) return NoteEnd(end, "PDF");
    held.Finish();
    left -= std::min<uint64_t>(left, std::max(output.size(), between));
    unpacked.push_back(std::move(held));
  }
}

bool Layers::SettleUnpacked(Opened& above, Bytes bytes) {
  const auto alike = above.unpacked.find(bytes.size());
  if (alike == above.unpacked.end()) return false;
  auto& contents = alike->second;
  const auto same = std::ranges::find_if(contents, [&](const Held& content) {
    if (above.compared_bytes > limits_.max_scan_size_bytes) return false;
    above.compared_bytes += bytes.size();
    return std::memcmp(content.bytes().data(), bytes.data(), bytes.size()) == 0;
  });
  if (same == contents.end()) return false;
  contents.erase(same);
  return true;
}

}  // namespace sluice::layers
