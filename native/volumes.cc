// SPDX-License-Identifier: GPL-2.0-only
// ECMA-167, 3rd edition; Apple's Technical Note 1150. Files are found by their descriptors, wherever these are: which folder they are in is nothing to us.
#include "volumes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

namespace sluice::volumes {
namespace {

// In bytes, as the file system says it.
struct Extent {
  uint64_t start;
  uint64_t size;
};

void AddFile(Bytes bytes, uint64_t size, const std::vector<Extent>& extents, Reading& reading) {
  std::vector<Piece> pieces;
  uint64_t left = size;
  for (const Extent& extent : extents) {
    const uint64_t said = std::min(extent.size, left);
    const uint64_t start = std::min<uint64_t>(extent.start, bytes.size());
    const uint64_t there = std::min<uint64_t>(said, bytes.size() - start);
    reading.is_cut = reading.is_cut || there < said;
    left -= said;
    if (there == 0) continue;
    if (!pieces.empty() && pieces.back().start + pieces.back().size == start) pieces.back().size += static_cast<size_t>(there);
    else pieces.push_back({static_cast<size_t>(start), static_cast<size_t>(there)});
  }
  reading.is_foreign = reading.is_foreign || left > 0;
  if (!pieces.empty()) reading.files.push_back(std::move(pieces));
}

// UDF. Of an optical disk, as those are that a double click opens.
constexpr size_t kSector = 2048;
constexpr size_t kTag = 16;
constexpr size_t kMaps = 440;
constexpr uint16_t kPartition = 5;
constexpr uint16_t kVolume = 6;
constexpr uint16_t kFile = 261;
constexpr uint16_t kExtendedFile = 266;

bool IsUdf(Bytes bytes) {
  constexpr std::string_view kOthers[] = {"CD001", "BEA01", "BOOT2", "CDW02", "TEA01"};
  for (size_t at = 16 * kSector + 1;; at += kSector) {
    if (Has(bytes, at, "NSR02") || Has(bytes, at, "NSR03")) return true;
    if (std::none_of(std::begin(kOthers), std::end(kOthers), [=](std::string_view one) { return Has(bytes, at, one); })) return false;
  }
}

bool IsKnown(uint16_t kind) { return kind == kPartition || kind == kVolume || kind == kFile || kind == kExtendedFile; }

bool IsTag(Bytes sector) {
  constexpr size_t kSum = 4;
  return static_cast<uint8_t>(std::accumulate(sector.begin(), sector.begin() + kTag, 0) - sector[kSum]) == sector[kSum];
}

// Where the sectors of files are.
struct Partition {
  uint64_t start = 0;
  // It has descriptors, and short extents in these are of another one.
  bool has_metadata = false;
};

// The lengths of attributes and of extents stand before both.
void AddUdfFile(Bytes bytes, size_t at, const Partition& partition, Reading& reading) {
  constexpr uint8_t kRegular = 5;
  constexpr uint16_t kShort = 0;
  constexpr uint16_t kLong = 1;
  constexpr uint16_t kEmbedded = 3;
  const Bytes sector = bytes.subspan(at, kSector);
  const size_t lengths = Half(sector, 0) == kFile ? 168 : 208;
  if (sector[27] != kRegular) return;
  const uint64_t size = Long(sector, 56);
  const uint16_t form = Half(sector, 34) & 7;
  const uint64_t first = lengths + 8 + uint64_t{Word(sector, lengths)};
  const uint64_t end = first + Word(sector, lengths + 4);
  if (form == kEmbedded) return AddFile(bytes, size, {{at + first, size}}, reading);
  std::vector<Extent> extents;
  const size_t step = form == kShort ? 8 : 16;
  reading.is_foreign = reading.is_foreign || form > kLong || end > sector.size() || (form == kShort && partition.has_metadata);
  for (uint64_t next = first; next + step <= std::min<uint64_t>(end, sector.size()); next += step) {
    const uint32_t length = Word(sector, static_cast<size_t>(next));
    if (length == 0) break;
    // The two highest bits: nothing lies there, or what lies there says where the others are.
    reading.is_foreign = reading.is_foreign || length >> 30 != 0;
    // Of another partition than the first one.
    reading.is_foreign = reading.is_foreign || (form == kLong && Half(sector, static_cast<size_t>(next) + 8) != 0);
    extents.push_back({(partition.start + Word(sector, static_cast<size_t>(next) + 4)) * kSector, length});
  }
  AddFile(bytes, size, extents, reading);
}

Reading ReadUdf(Bytes bytes, size_t files_max) {
  Reading reading;
  std::optional<uint32_t> first_sector;
  std::optional<uint32_t> sector_size;
  Partition partition;
  std::vector<size_t> files;
  for (size_t at = 0; bytes.size() - at >= kSector && files.size() <= files_max; at += kSector) {
    const Bytes sector = bytes.subspan(at, kSector);
    const uint16_t kind = Half(sector, 0);
    if (!IsKnown(kind) || !IsTag(sector)) continue;
    if (kind == kPartition) {
      const uint32_t said = Word(sector, 188);
      // It is there twice.
      reading.is_foreign = reading.is_foreign || first_sector.value_or(said) != said;
      first_sector = said;
    } else if (kind == kVolume) {
      sector_size = Word(sector, 212);
      const std::string_view maps = TextOf(sector.subspan(kMaps));
      // Sectors are elsewhere than their numbers say.
      const bool is_moved = maps.find("*UDF Sparable") != maps.npos || maps.find("*UDF Virtual") != maps.npos;
      reading.is_foreign = reading.is_foreign || is_moved;
      partition.has_metadata = partition.has_metadata || maps.find("*UDF Metadata") != maps.npos;
    } else {
      files.push_back(at);
    }
  }
  reading.is_foreign = reading.is_foreign || !first_sector || sector_size != kSector;
  partition.start = first_sector.value_or(0);
  for (const size_t at : files) AddUdfFile(bytes, at, partition, reading);
  return reading;
}

// HFS+, all numbers with the highest byte first.
constexpr size_t kHeader = 1024;
constexpr size_t kFork = 80;
constexpr size_t kNodeHeader = 14;

uint16_t HighHalf(Bytes bytes, size_t at) { return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]); }
uint32_t HighWord(Bytes bytes, size_t at) { return __builtin_bswap32(Word(bytes, at)); }

// Eight extents; a file with more is in more than one piece.
std::vector<Extent> ExtentsOf(Bytes fork, uint64_t block) {
  std::vector<Extent> extents;
  for (size_t at = 16; at < kFork && HighWord(fork, at + 4) > 0; at += 8) {
    extents.push_back({HighWord(fork, at) * block, HighWord(fork, at + 4) * block});
  }
  return extents;
}

void AddHfsNode(Bytes bytes, Bytes node, uint64_t block, Reading& reading) {
  constexpr uint16_t kFileRecord = 2;
  constexpr size_t kForks = 88;
  constexpr uint8_t kLeaf = 0xff;
  if (node[8] != kLeaf) return;
  size_t next = kNodeHeader;
  for (size_t left = HighHalf(node, 10), end = node.size(); left > 0 && end >= kNodeHeader + 2; left--) {
    end -= 2;
    const size_t key = HighHalf(node, end);
    if (key + 2 > node.size()) break;
    const size_t record = key + 2 + HighHalf(node, key);
    if (record + kForks + 2 * kFork > node.size() || HighHalf(node, record) != kFileRecord) continue;
    // They lie one behind the other.
    if (key < next) {
      reading.is_foreign = true;
      break;
    }
    next = record + kForks + 2 * kFork;
    for (const size_t fork : {record + kForks, record + kForks + kFork}) {
      const Bytes said = node.subspan(fork, kFork);
      AddFile(bytes, __builtin_bswap64(Long(said, 0)), ExtentsOf(said, block), reading);
    }
  }
}

// Compressed by a method that libclamav lacks.
bool HasPacked(Bytes bytes) {
  constexpr std::string_view kMark = "fpmc";
  constexpr uint32_t kOpened[] = {1, 3, 4};
  const std::string_view text = TextOf(bytes);
  for (size_t at = text.find(kMark); at != text.npos; at = text.find(kMark, at + kMark.size())) {
    if (bytes.size() - at < 8 || bytes[at + 4] == 0 || Word(bytes, at + 4) > 0xff) continue;
    if (std::find(std::begin(kOpened), std::end(kOpened), Word(bytes, at + 4)) == std::end(kOpened)) return true;
  }
  return false;
}

Reading ReadHfsPlus(Bytes bytes, size_t files_max) {
  constexpr size_t kNodeLeast = 512;
  constexpr size_t kNodeMost = 32768;
  Reading reading;
  const uint64_t block = HighWord(bytes, kHeader + 40);
  const Bytes catalog = bytes.subspan(kHeader + 272, kFork);
  std::optional<size_t> node_size;
  uint64_t read = 0;
  for (const Extent& extent : ExtentsOf(catalog, block)) {
    const Bytes nodes = bytes.subspan(static_cast<size_t>(std::min<uint64_t>(extent.start, bytes.size())));
    const Bytes there = nodes.first(static_cast<size_t>(std::min<uint64_t>(extent.size, nodes.size())));
    reading.is_cut = reading.is_cut || there.size() < extent.size;
    // Those that lie in each other are no catalog.
    read += there.size();
    reading.is_foreign = reading.is_foreign || read > bytes.size();
    if (read > bytes.size()) break;
    // The first node says how large all of them are.
    if (!node_size && there.size() >= kNodeLeast) node_size = HighHalf(there, 32);
    if (!node_size || *node_size < kNodeLeast || *node_size > kNodeMost) break;
    for (size_t at = 0; there.size() - at >= *node_size && reading.files.size() <= files_max; at += *node_size) {
      AddHfsNode(bytes, there.subspan(at, *node_size), block, reading);
    }
  }
  reading.is_foreign = reading.is_foreign || !node_size || HasPacked(bytes);
  return reading;
}

}  // namespace

bool IsHfsPlus(Bytes bytes) {
  constexpr size_t kLeast = kHeader + 512;
  return bytes.size() >= kLeast && (Has(bytes, kHeader, std::string_view("H+\0\4", 4)) || Has(bytes, kHeader, std::string_view("HX\0\5", 4)));
}

Reading Read(Bytes bytes, size_t files_max) {
  if (IsUdf(bytes)) return ReadUdf(bytes, files_max);
  return IsHfsPlus(bytes) ? ReadHfsPlus(bytes, files_max) : Reading();
}

}  // namespace sluice::volumes
