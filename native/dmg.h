// SPDX-License-Identifier: GPL-2.0-only
// Images of disks of macOS (UDIF): partitions in pieces, of which each is packed. libclamav stops in silence at one that it can't unpack.
#pragma once

#include <cstdint>
#include <vector>

#include "bytes.h"
#include "output.h"

namespace sluice::dmg {

struct Piece {
  uint32_t method;
  // Of the partition.
  uint64_t start;
  uint64_t size;
  Bytes packed;
};

struct Reading {
  // Each by its pieces, in the order in which they lie there.
  std::vector<std::vector<Piece>> partitions;
  // Where they are can't be said for sure.
  bool is_foreign = false;
};

// Empty for all else.
Reading Read(Bytes bytes);

streams::End Unpack(const std::vector<Piece>& pieces, streams::Output& output);

}  // namespace sluice::dmg
