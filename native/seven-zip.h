// SPDX-License-Identifier: GPL-2.0-only
// How a 7z is packed: libclamav knows some of its methods, and calls a member by another one clean.
#pragma once

#include <cstdint>
#include <vector>

#include "bytes.h"

namespace sluice::seven_zip {

enum class Reading : uint8_t {
  // No 7z, or one that is left to libclamav: empty, or encrypted with its names.
  kNone,
  kOpened,
  // A method that libclamav doesn't know.
  kForeign,
  // Its directory is missing, or can't be read.
  kDamaged,
};

// `sizes`: of the members that libclamav opens, unless their data is damaged: it passes over that in silence. What came out of packed directories is added to `list_bytes`.
Reading Read(Bytes bytes, std::vector<uint64_t>& sizes, uint64_t& list_bytes);

}  // namespace sluice::seven_zip
