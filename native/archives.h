// SPDX-License-Identifier: GPL-2.0-only
// Archives whose members lie in them as they are: ar (packages of Debian, static libraries), tar, cpio and RPM.
#pragma once

#include <vector>

#include "bytes.h"

namespace sluice::archives {

struct Archive {
  const char* name;
  // Those that libclamav doesn't open. Of a tar also what stands behind its end, or behind what is damaged; of a cpio what
  // follows its end, and programs for Windows; of an RPM the only stream, of a cpio as a rule.
  std::vector<Bytes> members;
  // It ends within a member, or before the first one.
  bool is_cut = false;
  // Something else stands where a header must.
  bool is_damaged = false;
  // Some members have holes, which only tar fills.
  bool is_foreign = false;
  // It begins somewhere behind other bytes.
  bool is_behind = false;
};

constexpr size_t kBlock = 512;
// Of one that begins here, as far as its headers say; 0: none does.
size_t SizeOfTar(Bytes bytes);

// Most contents are none, some are more than one.
std::vector<Archive> Read(Bytes bytes);

}  // namespace sluice::archives
