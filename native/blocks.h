// SPDX-License-Identifier: GPL-2.0-only
// The memory of a library that asks for the same for each of many streams: what one gives back the next one takes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>

namespace sluice::streams {

class Blocks {
 public:
  Blocks() = default;
  Blocks(const Blocks&) = delete;
  ~Blocks() {
    for (const Block& block : blocks_) std::free(block.start);
  }

  // Null: memory is short. Nothing is thrown: the library is one of C.
  void* Take(size_t size) noexcept {
    const auto is_fit = [size](const Block& block) { return !block.is_lent && block.size == size; };
    auto block = std::ranges::find_if(blocks_, is_fit);
    if (block == blocks_.end()) block = std::ranges::find(blocks_, false, &Block::is_lent);
    if (block == blocks_.end()) return nullptr;
    if (block->size != size) {
      std::free(block->start);
      *block = {};
      block->start = std::malloc(size);
      if (block->start == nullptr) return nullptr;
      block->size = size;
    }
    block->is_lent = true;
    return block->start;
  }

  void GiveBack(void* start) noexcept {
    const auto block = std::ranges::find(blocks_, start, &Block::start);
    if (start != nullptr && block != blocks_.end()) block->is_lent = false;
  }

 private:
  struct Block {
    void* start = nullptr;
    size_t size = 0;
    bool is_lent = false;
  };
  // bzip2 has two at once, whose sizes are those of its nine levels.
  std::array<Block, 4> blocks_;
};

}  // namespace sluice::streams
