// SPDX-License-Identifier: GPL-2.0-only
// What scripts and pages spell as numbers or letters, and what they pack before they spell it.
#include <string_view>
#include <utility>

#include "base64.h"
#include "encoded.h"
#include "entities.h"
#include "layers.h"
#include "spelled.h"

namespace sluice::layers {
namespace {

// So many are looked at each for itself. The rest, and tables of a source, together.
constexpr size_t kAlone = 256;

}  // namespace

void Layers::NoteSpelled(Bytes bytes, const encoded::Finder& encoded) {
  // All pictures of RTF are digits, and those of objects are read elsewhere. A page may begin so as well.
  const bool is_rtf = Has(bytes, 0, "{\\rt") && TextOf(bytes).find('<') == std::string_view::npos;
  if (!encoded::IsText(bytes)) return;
  spelled::Finder finder(bytes);
  Held rest;
  streams::Output to_rest(&rest, now_.bytes_left, deadline_);
  size_t count = 0;
  const auto put = [&](spelled::Form form, Bytes spelling, bool is_known) {
    const bool is_alone = is_known && count++ < kAlone;
    Held held;
    streams::Output to_held(&held, now_.bytes_left, deadline_);
    const streams::End end = spelled::Decode(spelling, form, is_alone ? to_held : to_rest);
    if (is_alone) Add(std::move(held), Origin::kSpelled);
    if (end != streams::End::kWhole) NoteEnd(end, "text");
    return end == streams::End::kWhole;
  };
  size_t base64_end = 0;
  while (const std::optional<spelled::Run> run = finder.Next()) {
    if (is_rtf && (run->form != spelled::Form::kDigits || !run->is_known)) continue;
    if (run->form != spelled::Form::kBase64) {
      if (!put(run->form, bytes.subspan(run->start, run->end - run->start), run->is_known)) return;
      continue;
    }
    if (encoded.has_base64() || run->start < base64_end) continue;
    std::vector<base64::Run> runs;
    base64_end = base64::Read(bytes, run->start, runs);
    for (const base64::Run& one : runs) {
      const spelled::Form form = one.is_reversed ? spelled::Form::kReversedBase64 : spelled::Form::kBase64;
      if (!put(form, bytes.subspan(one.start, one.end - one.start), true)) return;
    }
  }
  Add(std::move(rest));
}

// As a browser reads it: what it says may be an address with data.
void Layers::NoteEntities(Bytes bytes) {
  if (!encoded::IsText(bytes) || !entities::HasNeedless(bytes)) return;
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  const streams::End end = entities::Decode(bytes, output);
  if (end != streams::End::kWhole) return NoteEnd(end, "text");
  Add(std::move(held));
}

// zlib begins as a text may. Deflate without a head is not to be known; scripts spell it, and nothing is behind it.
void Layers::NoteDeflated(uint32_t level, Bytes bytes) {
  constexpr unsigned kCheck = 31;
  const bool is_zlib = bytes[0] == 'x' && (bytes[0] << 8 | bytes[1]) % kCheck == 0;
  const bool is_spelled = level == 0 && origin_ == Origin::kSpelled;
  if (!is_zlib && !is_spelled) return;
  Held held;
  streams::Output output(&held, now_.bytes_left, deadline_);
  const streams::End end = is_zlib ? streams::UnpackZlib(bytes, output) : streams::UnpackDeflate(bytes, output);
  constexpr size_t kBehindMost = 3;
  const bool is_one = is_zlib ? end == streams::End::kWhole || output.size() >= kFew
                              : end == streams::End::kWhole && output.taken() + kBehindMost >= bytes.size();
  if (!is_one) {
    Spend(output.size());
    return;
  }
  NoteEnd(end, "zlib");
  Add(std::move(held), Origin::kSpelled);
}

}  // namespace sluice::layers
