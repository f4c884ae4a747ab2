// SPDX-License-Identifier: GPL-2.0-only
// In which stretches of a content a signature can match. libclamav's matcher follows a tree at each byte; it needs to do so only there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "patterns.h"
#include "places.h"

namespace sluice::stretches {

struct Stretch {
  uint32_t begin;
  uint32_t end;
};

// A body signature as libclamav's matcher gets it.
struct Signature {
  std::string_view hex;
  bool any_case;
  // The type of file that it tells; 0: none.
  uint16_t type;
  // As in a database.
  std::string_view offset;
};

// Of all signatures that a matcher looks for.
class Finder {
 public:
  void Add(const Signature& signature);
  // After the last one.
  void Finish();

  // A piece of a content.
  struct Piece {
    std::span<const uint8_t> bytes;
    // Of its first byte in the content.
    uint32_t offset;
    // Signatures that tell types are looked for as well. Then nothing is found where some that can match tell different types.
    bool tells_types;
  };
  // The stretches in order, apart from each other, in which all that can match in the piece lies whole, with what is around it. False: it is
  // better, or needed, to match all of it. `reach`: up to which byte of the content there can be more of what began in the pieces before.
  bool Find(const Piece& piece, uint64_t& reach, std::vector<Stretch>& found) const;

 private:
  // Bytes that lie in each match of a part: the first ones are looked for, then eight are compared, and where these are in many contents, more.
  struct Window {
    uint64_t value;
    uint64_t mask;
    uint32_t key;
    // How many bytes before the first ones the eight begin.
    uint32_t lead;
    // Which of `more_` are compared then, and how many bytes before the first ones they begin; none where it is `kNoMore`.
    uint32_t more;
    uint32_t more_lead;
    // Bytes from the beginning of the match to the first ones, and from there to its end, at most.
    uint32_t before;
    uint32_t after;
    // Of the whole signature, where its last part ends there.
    uint16_t type;
    // There are more parts before the end, which can be in the next piece.
    bool has_more_parts;
    // Where in the content the match may begin.
    uint32_t first;
    uint32_t last;
  };

  // Windows by their first bytes.
  class Table {
   public:
    // So many of them.
    explicit Table(size_t bytes) : mask_(static_cast<uint32_t>((uint64_t{1} << (8 * bytes)) - 1)) {}
    void Add(const Window& window) { windows_.push_back(window); }
    const std::vector<Window>& windows() const { return windows_; }
    void Finish();
    template <typename Met>
    void Each(uint64_t word, Met met) const;

   private:
    uint32_t KeyOf(uint64_t word) const { return static_cast<uint32_t>(places::Folded(word)) & mask_; }
    size_t PlaceOf(uint32_t key) const {
      const uint32_t hash = places::HashOf(key);
      return (hash ^ hash >> 16) & (begins_.size() - 2);
    }
    uint32_t mask_;
    // In the order of their places in `begins_`, which has one more.
    std::vector<Window> windows_;
    // Of each one.
    std::vector<uint32_t> keys_;
    std::vector<uint32_t> begins_;
  };
  class Search;

  bool AddParts(const std::vector<patterns::Part>& parts, const Signature& signature);
  Window WindowAt(const std::vector<patterns::Item>& items, size_t at);
  void CompareMore(Window& window, const std::vector<patterns::Item>& items, size_t at);

  // False as soon as there is a signature of which nothing is known.
  bool is_able_ = true;
  static constexpr uint32_t kNoMore = ~0U;
  std::vector<std::vector<patterns::Item>> more_;
  Table long_{places::kRow};
  Table short_{places::kPair};
  // Those of both that lie in zeros, of which there are long runs in programs.
  std::vector<Window> in_zeros_;
  // Those of one place of the content.
  std::vector<Window> fixed_;
  // Where they may begin.
  places::Filter filter_;
  // Of windows with more parts: bytes from the first one to the end, at most, and the types that they tell.
  uint32_t reach_ = 0;
  std::set<uint16_t> types_behind_;
};

}  // namespace sluice::stretches
