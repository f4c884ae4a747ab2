// SPDX-License-Identifier: GPL-2.0-only
// Disk images of macOS: what their pieces are packed by.
#pragma once

#include "bytes.h"

namespace sluice::dmg {

// Some pieces are packed by a method that libclamav passes over: LZFSE and LZMA.
bool IsForeign(Bytes bytes);

}  // namespace sluice::dmg
