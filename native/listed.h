// SPDX-License-Identifier: GPL-2.0-only
// What the directories of cabinets, of ARJ, LHA and XAR archives and of compiled help say that there is. libclamav passes over a member that it can't unpack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytes.h"

namespace sluice::listed {

// Of a member: its directory is packed itself, and only that there is one can be said.
constexpr uint64_t kAnySize = UINT64_MAX;

struct Reading {
  // Unpacked, of each member without a password.
  std::vector<uint64_t> sizes;
  bool is_encrypted = false;
  bool is_cut = false;
  bool is_damaged = false;
  // Of a list that is packed, what came out.
  uint64_t list_bytes = 0;
};

// Of an LHA archive that begins here, among other bytes, as far as its headers say; 0: none does.
size_t SizeOfLha(Bytes bytes);

// Empty for all else.
Reading Read(Bytes bytes);

}  // namespace sluice::listed
