// SPDX-License-Identifier: GPL-2.0-only
// How libclamav reads logical expressions: all of them, once more for each layer.
#pragma once

#include <cstdint>

namespace sluice::expressions {

// What sscanf would say. A plain number is read here, all else by the C library.
int ReadNumber(const char* text, const char* format, ...);

// What libclamav says of an expression, which ends before `end`, by how often each of its subsignatures (64 places) has matched: 1, it is true; `count` and
// `distinct` grow by what was counted. Where none has matched, and nothing in it asks for that, nothing is read.
int Check(const char* expression, const char* end, uint32_t* matched, unsigned* count, uint64_t* distinct, unsigned parse_only);

// From now on libclamav reads by the functions above.
void Watch();

}  // namespace sluice::expressions
