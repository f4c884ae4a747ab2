// SPDX-License-Identifier: GPL-2.0-only
// What libclamav does with a signature because of others in the same engine: how much of a piece of a large content it gives to its matcher once more before
// the next piece (as many bytes as the longest pattern has), whether it compares bytes (where any pattern for the kind of file has parts), and whether signatures for all
// kinds know the size and the end of normalised text (where any pattern for text has a place that is counted from the end).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::overlap {

struct Measures {
  // Bytes of the longest pattern; 0: there is none.
  uint32_t longest = 0;
  // Some pattern has gaps without a fixed length.
  bool has_parts = false;
  // The place of some pattern is counted from the end.
  bool has_ends = false;
};

// For each kind of file.
using Patterns = std::array<Measures, 16>;

// As libclamav counts a body pattern: its longest part, with the longest of each choice.
Measures MeasuresOf(std::string_view pattern);

void Join(Measures& measures, const Measures& others);
void Join(Patterns& patterns, const Patterns& others);

// Logical signatures that match nothing, with which an engine of the patterns `present` does as one of those of `wanted`; empty: it does already.
std::string FillersFor(const Patterns& present, const Patterns& wanted);

}  // namespace sluice::overlap
