// SPDX-License-Identifier: GPL-2.0-only
// Texts that scripts cut into pieces: "TVqQ" + "AAMA", lines that each are echoed, lines of a value that goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bytes.h"

namespace sluice::pieces {

struct Next {
  size_t at;
  // Commas stand between pieces, and between texts of their own.
  bool is_listed = false;
};

// Where a text goes on of which a piece ends here. Nothing: it was the last one.
std::optional<Next> Behind(Bytes bytes, size_t at);

// A letter of base64 that a page, an address or a JSON spells in another way; `length` 0: none.
struct Letter {
  uint8_t value;
  uint8_t length;
};
Letter SpelledAt(Bytes bytes, size_t at);

}  // namespace sluice::pieces
