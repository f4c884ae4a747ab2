// SPDX-License-Identifier: GPL-2.0-only
// Compound files ([MS-CFB], OLE2): every stream that their directory has. libclamav takes 512 bytes for a sector of any file, and follows the links of the directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "bytes.h"
#include "output.h"

namespace sluice::compound {

struct Stream {
  // The first of its sectors, which are small ones of 64 bytes or those of the file.
  uint32_t first;
  bool is_small;
  // What there is of it.
  uint64_t size;
};

// Of a stream, that lies there together.
struct Piece {
  uint64_t start;
  uint64_t size;
};

class File {
 public:
  // Nothing: it is something else. No more than one stream more than asked for.
  static std::optional<File> Read(Bytes bytes, size_t streams_max);

  const std::vector<Stream>& streams() const { return streams_; }
  // Of all streams; they may lie in each other.
  uint64_t streamed_bytes() const { return streamed_bytes_; }
  // Readers differ about what is a small stream.
  bool is_foreign() const { return is_foreign_; }
  // How a document is encrypted, and the document; and what is encrypted by itself. Of each there may be several.
  const std::vector<Stream>& locks() const { return locks_; }
  const std::vector<Stream>& packages() const { return packages_; }
  const std::vector<Stream>& workbooks() const { return workbooks_; }
  // Streams lie in each other, so often that not all of them were followed.
  bool is_damaged() const { return steps_left_ == 0; }

  // The bytes are those that it was read from, or a copy of them. Pieces may end behind them.
  std::vector<Piece> PiecesOf(Bytes bytes, const Stream& stream) const;
  void Unpack(Bytes bytes, const Stream& stream, streams::Output& output) const;

 private:
  File(Bytes bytes, uint16_t sector_bits) : sector_bits_(sector_bits), sectors_((bytes.size() >> sector_bits) + 1) {}

  size_t sector_bytes() const { return size_t{1} << sector_bits_; }
  uint64_t PlaceOf(uint32_t sector) const { return (uint64_t{sector} + 1) << sector_bits_; }
  uint32_t NumberIn(Bytes bytes, const std::vector<uint32_t>& table, uint32_t index) const;
  uint32_t Next(Bytes bytes, const Stream& stream, uint32_t sector) const;
  std::optional<uint64_t> PlaceOf(const Stream& stream, uint32_t sector) const;
  std::vector<uint32_t> ChainOf(Bytes bytes, uint32_t first) const;
  void ReadTable(Bytes bytes);
  void ReadDirectory(Bytes bytes, size_t streams_max);
  // Whether there is anything of it.
  bool AddStream(Bytes bytes, Stream stream);

  uint16_t sector_bits_;
  // As many as the file has room for.
  uint64_t sectors_;
  // Sectors with the numbers of next sectors, of the file and of its small ones; and those that small ones lie in.
  std::vector<uint32_t> table_;
  std::vector<uint32_t> small_table_;
  std::vector<uint32_t> small_;
  std::vector<Stream> streams_;
  std::vector<Stream> locks_;
  std::vector<Stream> packages_;
  std::vector<Stream> workbooks_;
  uint64_t steps_left_ = 0;
  uint64_t streamed_bytes_ = 0;
  bool is_foreign_ = false;
};

}  // namespace sluice::compound
