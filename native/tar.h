// SPDX-License-Identifier: GPL-2.0-only
// What libclamav leaves of a tar: it knows sizes in octal digits only, and stops where the archive seems to end.
#pragma once

#include <vector>

#include "streams.h"

namespace sluice::tar {

bool IsTar(streams::Bytes bytes);

struct Reading {
  // Members, and what begins like another tar behind the end of this one, or behind what is damaged.
  std::vector<streams::Bytes> unopened;
  // It ends within a member.
  bool is_cut = false;
  // Something stands where a header must.
  bool is_damaged = false;
};

Reading Read(streams::Bytes bytes);

}  // namespace sluice::tar
