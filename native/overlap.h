// SPDX-License-Identifier: GPL-2.0-only
// How much of a piece of a large content libclamav gives to its matcher once more, before the next piece: as many bytes as the longest pattern of an engine has.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::overlap {

// Of the longest pattern for each kind of file, in bytes; 0: there is none.
using Lengths = std::array<uint32_t, 16>;

// As libclamav counts a body pattern: the longest of its parts between gaps without a fixed length, with the longest of each choice.
uint32_t LengthOf(std::string_view pattern);

void Join(Lengths& lengths, const Lengths& others);

// Logical signatures that match nothing, by which an engine with patterns as long as `present` cuts as one with those of `wanted` does; empty: it does already.
std::string FillersFor(const Lengths& present, const Lengths& wanted);

}  // namespace sluice::overlap
