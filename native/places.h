// SPDX-License-Identifier: GPL-2.0-only
// At which places of a content one of many rows of bytes may begin: a look at most bytes that costs about one step of the processor for each.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "byte-classes.h"
#include "patterns.h"

namespace sluice::places {

// For so many places there is one word.
constexpr size_t kAtOnce = 32;
// At most so many are looked at by one call. Some bytes behind them are read.
constexpr size_t kMost = 4096;
constexpr size_t kBehind = 8;

// Bytes by which something is looked for: that many, or where fewer are known these.
constexpr size_t kRow = 4;
constexpr size_t kPair = 2;

// Letters in one case. Of bytes that are no letters some become equal as well.
inline uint64_t Folded(uint64_t word) { return word | (word >> 1 & 0x2020202020202020); }

// Of four bytes.
inline uint32_t HashOf(uint64_t folded) {
  constexpr uint32_t kMultiplier = 0x9E3779B1;
  return static_cast<uint32_t>(folded) * kMultiplier;
}

class Filter {
 public:
  // So many of these items, two to four, are known from this one on; what is known of those around them counts as well.
  void Add(std::span<const patterns::Item> items, size_t at, size_t known);
  // After the last one.
  void Finish();

  // A bit for each place at which a row may begin; `size`: a multiple of `kAtOnce`.
  void Look(const uint8_t* bytes, size_t size, uint32_t* places) const;

 private:
  class Bits {
   public:
    void Finish(const std::vector<uint32_t>& hashes, size_t bits_for_each);
    // The lowest bit.
    uint32_t Has(uint32_t hash) const {
      const uint32_t at = hash >> shift_;
      return words_[at >> 5] >> (at & 31);
    }

   private:
    std::vector<uint32_t> words_;
    int shift_ = 0;
  };
  // Of four bytes.
  struct Rows {
    std::vector<uint32_t> rows;
    Bits bits;
  };

  uint32_t HasSome(const uint8_t* bytes) const;
  uint32_t PlacesOf(const uint8_t* bytes) const;
  // `pairs_in`: a bit for each place at which a row of two bytes may begin.
  template <typename Pairs>
  void LookBy(Pairs pairs_in, const uint8_t* bytes, size_t size, uint32_t* places) const;
#if defined(__x86_64__)
  SLUICE_AVX2 void LookFast(const uint8_t* bytes, size_t size, uint32_t* places) const;
#endif

  // Four bytes by which something is looked for, behind the one before them; the lowest bits are that one's.
  struct Place {
    uint64_t value = 0;
    uint64_t mask = 0;
    auto operator<=>(const Place&) const = default;
  };
  std::vector<Place> places_;
  // Of those that begin at an even place, and of those that begin one behind it.
  Rows here_;
  Rows behind_;
  Bits any_;
  // Rows of two bytes.
  std::vector<uint32_t> twos_;
  PairClasses pairs_;
};

}  // namespace sluice::places
