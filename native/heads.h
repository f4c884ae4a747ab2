// SPDX-License-Identifier: GPL-2.0-only
// The first bytes of what is worth a look of its own: programs, archives, documents, texts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "bytes.h"

namespace sluice::heads {

// As many as tell a text from bytes that only look like letters.
constexpr size_t kSize = 24;

class Head {
 public:
  void Put(uint8_t byte) {
    if (count_ < kSize) bytes_[count_++] = byte;
  }
  bool is_full() const { return count_ == kSize; }
  bool IsKnown() const;

 private:
  std::array<uint8_t, kSize> bytes_;
  size_t count_ = 0;
};

}  // namespace sluice::heads
