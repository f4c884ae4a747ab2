// SPDX-License-Identifier: GPL-2.0-only
// The files of two file systems: of UDF, which libclamav opens as few makers write it, and of HFS+, which it opens in a partition only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytes.h"

namespace sluice::volumes {

// Of the content, all in it.
struct Piece {
  size_t start;
  size_t size;
};

struct Reading {
  // Each by its pieces.
  std::vector<std::vector<Piece>> files;
  // Nothing says where all pieces are, or a file is packed.
  bool is_foreign = false;
  // It ends within a file.
  bool is_cut = false;
};

bool IsHfsPlus(Bytes bytes);

// No more files than so many; one more says that there are.
Reading Read(Bytes bytes, size_t files_max);

}  // namespace sluice::volumes
