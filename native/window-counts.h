// SPDX-License-Identifier: GPL-2.0-only
// In how many contents windows lie that are asked about: what `sluice signatures tune` learns from, and a server from what it looks at twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace sluice {

class WindowCounts {
 public:
  // What is gone over, and kept.
  struct Bounds {
    // The first so many of each layer.
    size_t layer_bytes;
    // Of all layers of a content together.
    size_t content_bytes;
    size_t windows_of_content;
    size_t windows;
  };
  static constexpr size_t kAll = SIZE_MAX;

  // What one content has of them, in all of its layers.
  class Met {
   public:
    explicit Met(const WindowCounts& counts) : counts_(counts), bytes_left_(counts.bounds_.content_bytes) {}
    // A layer, and what libclamav says it is. Where memory is short nothing is noted.
    void Note(const char* type, std::string_view bytes) noexcept;

   private:
    friend class WindowCounts;
    void NoteForms(const char* type, std::string_view bytes);
    void NoteBytes(int of_class, std::string_view bytes, bool in_small);

    const WindowCounts& counts_;
    size_t bytes_left_;
    std::unordered_set<uint64_t> windows_;
  };

  // Hashes of 39 bits, the first of its two words in the lower 32.
  WindowCounts(const std::vector<uint64_t>& windows, const Bounds& bounds);

  // As of so many contents. Where memory is short some are left out.
  void Add(const Met& met, uint32_t contents) const noexcept;
  // Those that were met, with the number of contents.
  std::vector<std::pair<uint64_t, uint32_t>> Read() const;

 private:
  // Of some ten thousand others it says yes to one.
  bool Asks(uint64_t window) const;

  const Bounds bounds_;
  // The upper bits of each, 0: empty; where it lies the lower ones say.
  std::vector<uint16_t> slots_;
  mutable std::mutex lock_;
  mutable std::unordered_map<uint64_t, uint32_t> counts_;
};

}  // namespace sluice
