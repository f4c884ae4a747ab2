// SPDX-License-Identifier: GPL-2.0-only
// A trailer says where a property list is. That has a table of pieces for each partition, in base64.
#include "dmg.h"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "encoded.h"
#include "held.h"
#include "streams.h"

namespace sluice::dmg {
namespace {

uint32_t HighWord(Bytes bytes, size_t at) { return __builtin_bswap32(Word(bytes, at)); }

// Holes, copies, comments and the end; ADC, zlib and bzip2.
bool IsKnown(uint32_t method) {
  constexpr uint32_t kKnown[] = {0, 1, 2, 0x7ffffffe, 0x80000004, 0x80000005, 0x80000006, 0xffffffff};
  return std::find(std::begin(kKnown), std::end(kKnown), method) != std::end(kKnown);
}

bool IsTableForeign(Bytes table) {
  constexpr size_t kHeader = 204;
  constexpr size_t kEntry = 40;
  if (!Has(table, 0, "mish") || table.size() < kHeader) return false;
  for (Bytes entries = table.subspan(kHeader); entries.size() >= kEntry; entries = entries.subspan(kEntry)) {
    if (!IsKnown(HighWord(entries, 0))) return true;
  }
  return false;
}

}  // namespace

bool IsForeign(Bytes bytes) {
  constexpr size_t kTrailer = 512;
  constexpr std::string_view kBegin = "<data>";
  // Of all tables together.
  constexpr uint64_t kTablesMost = 64 << 20;
  constexpr std::chrono::seconds kPatience{1};
  if (bytes.size() < kTrailer) return false;
  const Bytes trailer = bytes.last(kTrailer);
  if (!Has(trailer, 0, std::string_view("koly\0\0\0\x04", 8))) return false;
  const uint64_t start = __builtin_bswap64(Long(trailer, 216));
  const uint64_t size = __builtin_bswap64(Long(trailer, 224));
  if (start > bytes.size() || size > bytes.size() - start) return true;
  const Bytes list = bytes.subspan(static_cast<size_t>(start), static_cast<size_t>(size));
  const std::string_view text = TextOf(list);
  Held tables;
  streams::Output output(&tables, kTablesMost, streams::Clock::now() + kPatience);
  for (size_t at = text.find(kBegin); at != text.npos; at = text.find(kBegin, at)) {
    at += kBegin.size();
    const size_t end = std::min(text.find('<', at), text.size());
    const size_t before = tables.bytes().size();
    if (encoded::DecodeBase64(list.subspan(at, end - at), output) != streams::End::kWhole) return true;
    if (IsTableForeign(tables.bytes().subspan(before))) return true;
  }
  return false;
}

}  // namespace sluice::dmg
