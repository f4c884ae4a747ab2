// SPDX-License-Identifier: GPL-2.0-only
// libclamav looks for modules where the project's directory says, and loses its way in some of several pieces. Of a presentation it forgets all objects at
// the first record that is empty, or that is no zlib.
#include "macros.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace sluice::macros {
namespace {

constexpr size_t kPiece = 4096;
constexpr size_t kHeader = 2;
constexpr uint8_t kSignature = 0x01;

// Of a piece, with its header.
bool BeginsPiece(Bytes bytes) {
  constexpr uint16_t kMask = 0x7000;
  constexpr uint16_t kMark = 0x3000;
  return bytes.size() > kHeader && (Half(bytes, 0) & kMask) == kMark;
}

size_t SizeOfPiece(Bytes bytes) {
  constexpr uint16_t kSize = 0x0fff;
  return std::min<size_t>((Half(bytes, 0) & kSize) + 3U, bytes.size());
}

// Bytes, and copies of what came before: how far back and how many shares 16 bits, by how much there is. Returns how many bytes came out.
size_t UnpackPiece(Bytes piece, std::span<uint8_t> room) {
  constexpr uint16_t kPacked = 0x8000;
  const Bytes data = piece.subspan(kHeader);
  if ((Half(piece, 0) & kPacked) == 0) {
    const size_t count = std::min(data.size(), room.size());
    std::copy_n(data.begin(), count, room.begin());
    return count;
  }
  size_t count = 0;
  uint8_t flags = 0;
  unsigned bit = 8;
  for (size_t at = 0; at < data.size() && count < room.size(); bit++) {
    if (bit == 8) {
      flags = data[at++];
      bit = 0;
      if (at == data.size()) break;
    }
    if ((flags >> bit & 1) == 0) {
      room[count++] = data[at++];
      continue;
    }
    if (data.size() - at < sizeof(uint16_t)) break;
    constexpr unsigned kBitsLeast = 4;
    constexpr unsigned kBits = 16;
    unsigned bits = kBitsLeast;
    while ((size_t{1} << bits) < count) bits++;
    const unsigned token = Half(data, at);
    at += sizeof(uint16_t);
    const size_t back = (token >> (kBits - bits)) + 1;
    if (back > count) break;
    for (size_t left = (token & (0xffffU >> bits)) + 3; left > 0 && count < room.size(); left--, count++) room[count] = room[count - back];
  }
  return count;
}

// It begins as a text does. One that is not packed has one size.
bool BeginsModule(Bytes piece) {
  constexpr uint16_t kPacked = 0xf000;
  constexpr uint16_t kMark = 0xb000;
  constexpr uint16_t kAsItIs = 0x3fff;
  constexpr size_t kTold = 16;
  if (piece.size() <= kHeader || ((Half(piece, 0) & kPacked) != kMark && Half(piece, 0) != kAsItIs)) return false;
  std::array<uint8_t, kTold> first;
  if (UnpackPiece(piece.first(SizeOfPiece(piece)), first) < first.size()) return false;
  return std::all_of(first.begin(), first.end(), [](uint8_t byte) { return (byte >= ' ' && byte < 0x7f) || (byte >= '\t' && byte <= '\r'); });
}

}  // namespace

std::optional<size_t> UnpackNext(Bytes bytes, size_t from, streams::Output& output) {
  while (from < bytes.size()) {
    const void* found = std::memchr(bytes.data() + from, kSignature, bytes.size() - from);
    if (found == nullptr) break;
    size_t at = static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes.data()) + 1;
    from = at;
    if (!BeginsModule(bytes.subspan(at))) continue;
    for (std::array<uint8_t, kPiece> room; BeginsPiece(bytes.subspan(at));) {
      const Bytes piece = bytes.subspan(at, SizeOfPiece(bytes.subspan(at)));
      if (!output.Put(Bytes(room).first(UnpackPiece(piece, room)))) break;
      at += piece.size();
    }
    return at;
  }
  return std::nullopt;
}

std::vector<bundles::File> ReadObjects(Bytes bytes, size_t files_max) {
  // Without the zero before it, of which such files have very many.
  constexpr std::string_view kRecord = "\x11\x10";
  constexpr std::string_view kCompound = "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";
  constexpr size_t kHead = 8;
  constexpr size_t kSize = 4;
  constexpr uint8_t kPacked = 0x10;
  constexpr uint8_t kDeflate = 8;
  constexpr uint16_t kCheck = 31;
  std::vector<bundles::File> files;
  const std::string_view text = TextOf(bytes);
  for (size_t found = text.find(kRecord); found != text.npos && files.size() <= files_max; found = text.find(kRecord, found + 1)) {
    if (found < 2 || bytes[found - 1] != 0) continue;
    const size_t at = found - 1;
    const size_t start = at - 1 + kHead;
    if (bytes.size() - at < kHead + kSize + 1) continue;
    const size_t size = std::min<size_t>(Word(bytes, start - sizeof(uint32_t)), bytes.size() - start);
    if (bytes[at - 1] == 0 && Has(bytes, start, kCompound)) files.push_back({start, size});
    const size_t packed = start + kSize;
    const bool is_zlib = (bytes[packed] & 0xf) == kDeflate && (bytes[packed] << 8 | bytes[packed + 1]) % kCheck == 0;
    if (bytes[at - 1] == kPacked && size > kSize && is_zlib) files.push_back({packed, size - kSize, true});
  }
  return files;
}

}  // namespace sluice::macros
