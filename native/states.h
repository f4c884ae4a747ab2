// SPDX-License-Identifier: GPL-2.0-only
// What libclamav keeps of a layer for the logical signatures of a matcher: made anew for each layer, and where signatures are many it takes as long as the
// matching of a small one.
#pragma once

#include <cstdint>

namespace sluice::states {

// From now on it is made faster. Once, before the first scan. Not where libclamav's own one isn't as expected.
void Watch();

// As libclamav makes it, and in its place; returns what libclamav's does. `state` has room for libclamav's `cli_ac_data`.
int Make(void* state, uint32_t parts, uint32_t logical, uint32_t offsets, uint8_t tracked);

}  // namespace sluice::states
