// SPDX-License-Identifier: GPL-2.0-only
// In how many contents windows lie that are asked about: what `sluice signatures tune` learns from.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace sluice {

class WindowCounts {
 public:
  // What one content has of them, in all of its layers.
  class Met {
   public:
    explicit Met(const WindowCounts& counts) : counts_(counts) {}
    // A layer, and what libclamav says it is. May throw std::bad_alloc.
    void Note(const char* type, std::string_view bytes);

   private:
    friend class WindowCounts;
    void NoteBytes(int of_class, std::string_view bytes, bool in_small);

    const WindowCounts& counts_;
    std::unordered_set<size_t> slots_;
  };

  // Hashes of 39 bits, the first of its two words in the lower 32.
  explicit WindowCounts(const std::vector<uint64_t>& windows);

  void Add(const Met& met) const;
  // Those that were met, with the number of contents.
  std::vector<std::pair<uint64_t, uint32_t>> Read() const;

 private:
  // Where it lies, or the empty place where it would.
  size_t SlotOf(uint64_t window) const;

  // One more than the hash; 0: empty.
  std::vector<uint64_t> slots_;
  std::unique_ptr<std::atomic<uint32_t>[]> counts_;
};

}  // namespace sluice
