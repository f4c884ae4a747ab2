// SPDX-License-Identifier: GPL-2.0-only
// An image of a disk, most of which is zeros: pieces that say where they are, in units of 16 bytes, and how long they are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

// Of the first byte of an input.
inline bool IsImage(uint8_t kind) { return kind % 16 == 2; }

inline std::vector<uint8_t> ImageOf(const uint8_t* pieces, size_t length) {
  constexpr size_t kHead = 4;
  constexpr size_t kUnit = 16;
  constexpr size_t kSector = 2048;
  std::vector<uint8_t> image;
  while (length > kHead) {
    const size_t at = (pieces[0] | pieces[1] << 8) * kUnit;
    const size_t size = std::min<size_t>(pieces[2] | pieces[3] << 8, length - kHead);
    if (image.size() < at + size) image.resize((at + size + kSector - 1) / kSector * kSector);
    std::copy_n(pieces + kHead, size, image.begin() + static_cast<ptrdiff_t>(at));
    pieces += kHead + size;
    length -= kHead + size;
  }
  return image;
}
