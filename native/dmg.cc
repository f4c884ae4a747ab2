// SPDX-License-Identifier: GPL-2.0-only
// A trailer says where a property list is. That has a table of pieces for each partition, in base64.
#include "dmg.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "base64.h"
#include "held.h"
#include "streams.h"

namespace sluice::dmg {
namespace {

constexpr uint64_t kSector = 512;

uint32_t HighWord(Bytes bytes, size_t at) { return __builtin_bswap32(Word(bytes, at)); }
uint64_t HighLong(Bytes bytes, size_t at) { return __builtin_bswap64(Long(bytes, at)); }

bool IsHole(uint32_t method) { return method == 0 || method == 2; }

// Nothing: a place is said in another way than all tools write it.
std::optional<std::vector<Piece>> ReadTable(Bytes bytes, Bytes table) {
  constexpr size_t kHeader = 204;
  constexpr size_t kEntry = 40;
  constexpr uint32_t kComment = 0x7ffffffe;
  constexpr uint32_t kEnd = 0xffffffff;
  constexpr uint64_t kSectorsMost = 1ULL << 40;
  std::vector<Piece> pieces;
  if (table.size() < kHeader || HighLong(table, 24) != 0) return std::nullopt;
  Bytes entries = table.subspan(kHeader);
  if (HighWord(table, kHeader - 4) > entries.size() / kEntry) return std::nullopt;
  for (uint32_t left = HighWord(table, kHeader - 4); left > 0; left--, entries = entries.subspan(kEntry)) {
    const uint32_t method = HighWord(entries, 0);
    if (method == kComment || method == kEnd) continue;
    const uint64_t start = HighLong(entries, 8);
    const uint64_t size = HighLong(entries, 16);
    const uint64_t packed = HighLong(entries, 24);
    const uint64_t length = HighLong(entries, 32);
    if (start > kSectorsMost || size > kSectorsMost || packed > bytes.size() || length > bytes.size() - packed) return std::nullopt;
    pieces.push_back({method, start * kSector, size * kSector, bytes.subspan(static_cast<size_t>(packed), static_cast<size_t>(length))});
  }
  std::ranges::stable_sort(pieces, {}, &Piece::start);
  return pieces;
}

// Holes are zeros.
bool FillTo(uint64_t place, streams::Output& output) {
  constexpr std::array<uint8_t, 16 * kSector> kZeros{};
  while (output.size() < place) {
    if (!output.Put(Bytes(kZeros).first(static_cast<size_t>(std::min<uint64_t>(place - output.size(), kZeros.size()))))) return false;
  }
  return true;
}

streams::End UnpackPiece(const Piece& piece, streams::Output& output) {
  switch (piece.method) {
    case 1:
      return output.Put(piece.packed) ? streams::End::kWhole : output.stopped();
    case 0x80000005:
      return streams::UnpackZlib(piece.packed, output);
    case 0x80000006:
      return streams::Unpack(streams::Kind::kBzip2, piece.packed, output).end;
    case 0x80000008:
      return streams::Unpack(streams::Kind::kXz, piece.packed, output).end;
    default:
      return streams::End::kForeign;
  }
}

}  // namespace

// What may stand in a property list so that tables are elsewhere than they seem to be: it is foreign.
Reading Read(Bytes bytes) {
  constexpr size_t kTrailer = 512;
  constexpr std::string_view kBegin = "<data";
  // Of all tables together.
  constexpr uint64_t kTablesMost = 64 << 20;
  constexpr std::chrono::seconds kPatience{1};
  Reading reading;
  if (bytes.size() < kTrailer) return reading;
  const Bytes trailer = bytes.last(kTrailer);
  if (!Has(trailer, 0, std::string_view("koly\0\0\0\x04", 8))) return reading;
  const uint64_t start = HighLong(trailer, 216);
  const uint64_t size = HighLong(trailer, 224);
  reading.is_foreign = start > bytes.size() || size > bytes.size() - start || HighLong(trailer, 24) != 0;
  if (reading.is_foreign) return reading;
  const Bytes list = bytes.subspan(static_cast<size_t>(start), static_cast<size_t>(size));
  const std::string_view text = TextOf(list);
  reading.is_foreign = text.find("<![") != text.npos || text.find("<!ENTITY") != text.npos;
  Held tables;
  streams::Output output(&tables, kTablesMost, streams::Clock::now() + kPatience);
  for (size_t at = text.find(kBegin); at != text.npos && !reading.is_foreign; at = text.find(kBegin, at)) {
    at += kBegin.size();
    const size_t end = std::min(text.find('<', at), text.size());
    const size_t before = tables.bytes().size();
    const std::string_view letters = text.substr(at, end - at);
    const bool is_plain = letters.starts_with('>') && letters.find('&') == letters.npos && text.substr(end).starts_with("</data>");
    reading.is_foreign = !is_plain || base64::Decode(list.subspan(at, end - at), output) != streams::End::kWhole;
    const Bytes table = tables.bytes().subspan(before);
    if (!Has(table, 0, "mish")) continue;
    std::optional<std::vector<Piece>> pieces = ReadTable(bytes, table);
    reading.is_foreign = reading.is_foreign || !pieces;
    if (pieces) reading.partitions.push_back(*std::move(pieces));
  }
  reading.is_foreign = reading.is_foreign || reading.partitions.empty();
  return reading;
}

streams::End Unpack(const std::vector<Piece>& pieces, streams::Output& output) {
  for (const Piece& piece : pieces) {
    if (!FillTo(piece.start, output)) return output.stopped();
    if (output.size() > piece.start) return streams::End::kDamaged;
    const streams::End end = IsHole(piece.method) ? streams::End::kWhole : UnpackPiece(piece, output);
    if (end != streams::End::kWhole) return end == streams::End::kCut ? streams::End::kDamaged : end;
    if (!FillTo(piece.start + piece.size, output)) return output.stopped();
  }
  return streams::End::kWhole;
}

}  // namespace sluice::dmg
