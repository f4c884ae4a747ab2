// SPDX-License-Identifier: GPL-2.0-only
// Streams of a PDF that are spelled in letters: libclamav gives up at lines that go on and at zeros between digits, which readers pass over (ISO 32000-2, 7.4.2 and 7.4.3).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "bytes.h"
#include "held.h"
#include "streams.h"

namespace sluice::pdf {

enum class Filter { kHex, kBase85, kDeflated, kPicture, kOther };

// Those that the dictionary of a stream names, in their order.
std::vector<Filter> FiltersOf(std::string_view dictionary);

inline bool IsSpelled(const std::vector<Filter>& filters) {
  for (const Filter filter : filters) {
    if (filter == Filter::kHex || filter == Filter::kBase85) return true;
  }
  return false;
}

struct Unspelled {
  // kForeign: behind the letters comes what isn't unpacked here.
  streams::End end;
  Held held;
};

// Nothing: libclamav reads the letters as all others do.
std::optional<Unspelled> Unspell(Bytes data, const std::vector<Filter>& filters, const streams::Output& bounds);

}  // namespace sluice::pdf
