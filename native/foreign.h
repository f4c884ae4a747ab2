// SPDX-License-Identifier: GPL-2.0-only
// Containers that common tools open, and neither libclamav nor a library that is here.
#pragma once

#include "bytes.h"

namespace sluice::foreign {

// For people; null: it is none of them.
const char* NameOf(Bytes bytes);

}  // namespace sluice::foreign
