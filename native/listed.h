// SPDX-License-Identifier: GPL-2.0-only
// What the directories of cabinets, of ARJ, LHA and XAR archives and of compiled help say that there is. libclamav passes over a member that it can't unpack.
#pragma once

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
};

// Empty for all else.
Reading Read(Bytes bytes);

}  // namespace sluice::listed
