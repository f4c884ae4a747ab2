// SPDX-License-Identifier: GPL-2.0-only
// How libclamav reads the numbers of logical expressions: for each layer once more, by sscanf.
#pragma once

namespace sluice::numbers {

// What sscanf would say. A plain number is read here, all else by the C library.
int Read(const char* text, const char* format, ...);

// From now on libclamav reads by the function above.
void Watch();

}  // namespace sluice::numbers
