// SPDX-License-Identifier: GPL-2.0-only
// Where libclamav's copies of the files that it makes lie. A map for each of them costs page faults and interrupts of all other cores that
// run a thread of the process: while the copy is filled, and again when it is given back.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::maps {

// libclamav's calls come here from now on. Before the first scan.
void Watch();

// Pages of one thread that are given out like a stack. What comes back is zeros at once: nothing of a content stays.
class Arena {
 public:
  static constexpr size_t kSize = size_t{512} * 1024;

  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Zeros. Null: there is no room.
  void* Take(size_t size);
  // False: it is not from here.
  bool GiveBack(void* address, size_t size);

 private:
  struct Piece {
    size_t end = 0;
    bool taken = false;
  };

  uint8_t* start_ = nullptr;
  bool lacks_memory_ = false;
  // Each begins where the one before it ends.
  std::array<Piece, 32> pieces_{};
  size_t count_ = 0;
};

}  // namespace sluice::maps
