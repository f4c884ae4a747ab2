// SPDX-License-Identifier: GPL-2.0-only
// Rows of four bytes are asked for at each second place only: of each one the two that begin with it and one byte before it are known. Where a
// byte of these is not, there is a row for each that it may be.
#include "places.h"

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>

#include "bytes.h"

namespace sluice::places {
namespace {

using patterns::Item;

constexpr size_t kWord = sizeof(uint64_t);
// Of the first look and of the second one. Larger tables take longer than what they spare, since they lie in slower memory.
constexpr size_t kBitsForRow = 32;
constexpr size_t kBitsForFoundRow = 16;
constexpr int kBitsLeast = 10;
constexpr int kBitsMost = 19;
constexpr int kHashBits = 32;
constexpr uint32_t kInWord = 5;

// Bits count from the highest one on.
uint32_t OtherBits(uint32_t hash) { return std::rotl(hash, kHashBits / 2); }

constexpr uint32_t kBytes = 256;

// All that bytes of which some bits may not be known can be, folded.
std::vector<uint32_t> RowsOf(uint64_t value, uint64_t mask) {
  std::vector<uint32_t> rows{0};
  for (size_t shift = 0; shift < 8 * kRow; shift += 8) {
    const Item item{static_cast<uint8_t>(value >> shift), static_cast<uint8_t>(mask >> shift)};
    if (item.is_known()) {
      for (uint32_t& row : rows) row |= static_cast<uint32_t>(Folded(item.value)) << shift;
      continue;
    }
    std::bitset<kBytes> values;
    for (uint32_t byte = 0; byte < kBytes; byte++) {
      if (((byte ^ item.value) & item.mask) == 0) values.set(Folded(byte));
    }
    std::vector<uint32_t> longer;
    for (const uint32_t row : rows) {
      for (uint32_t byte = 0; byte < kBytes; byte++) {
        if (values[byte]) longer.push_back(row | byte << shift);
      }
    }
    rows = std::move(longer);
  }
  return rows;
}

// All bytes that are this one when they are folded.
void AddUnfolded(ByteClasses& classes, uint8_t byte, uint8_t of) {
  classes.Add(byte, of);
  const auto other = static_cast<uint8_t>(byte & ~patterns::kCase);
  if (Folded(other) == byte) classes.Add(other, of);
}

}  // namespace

void Filter::Add(std::span<const Item> items, size_t at, size_t known) {
  if (known == kPair) {
    twos_.push_back(static_cast<uint32_t>(Folded(items[at].value | items[at + 1].value << 8)));
    return;
  }
  // What lies before the first of them, behind the last one, and in between where the length isn't known may be anything.
  Place place;
  for (size_t one = 0; one <= kRow; one++) {
    const size_t from = at - 1 + one;
    if (from >= items.size() || !items[from].is_byte) continue;
    place.value |= static_cast<uint64_t>(items[from].value) << (8 * one);
    place.mask |= static_cast<uint64_t>(items[from].mask) << (8 * one);
  }
  places_.push_back(place);
}

void Filter::Finish() {
  std::sort(twos_.begin(), twos_.end());
  twos_.erase(std::unique(twos_.begin(), twos_.end()), twos_.end());
  constexpr size_t kClasses = 8;
  const size_t count = twos_.size();
  for (size_t one = 0; one < count; one++) {
    const auto classes = static_cast<uint8_t>(1U << (one * kClasses / count));
    AddUnfolded(pairs_.first, static_cast<uint8_t>(twos_[one]), classes);
    AddUnfolded(pairs_.second, static_cast<uint8_t>(twos_[one] >> 8), classes);
  }
  std::sort(places_.begin(), places_.end());
  places_.erase(std::unique(places_.begin(), places_.end()), places_.end());
  for (const auto& [value, mask] : places_) {
    for (const uint32_t row : RowsOf(value >> 8, mask >> 8)) here_.rows.push_back(HashOf(row));
    for (const uint32_t row : RowsOf(value, mask)) behind_.rows.push_back(HashOf(row));
  }
  places_ = {};
  std::vector<uint32_t> all = here_.rows;
  all.insert(all.end(), behind_.rows.begin(), behind_.rows.end());
  any_.Finish(all, kBitsForRow);
  for (Rows* of : {&here_, &behind_}) {
    for (uint32_t& hash : of->rows) hash = OtherBits(hash);
    of->bits.Finish(of->rows, kBitsForFoundRow);
    of->rows = {};
  }
}

void Filter::Bits::Finish(const std::vector<uint32_t>& hashes, size_t bits_for_each) {
  const int bits = std::clamp(static_cast<int>(std::bit_width(hashes.size() * bits_for_each)), kBitsLeast, kBitsMost);
  shift_ = kHashBits - bits;
  words_.assign(size_t{1} << (bits - kInWord), 0);
  for (const uint32_t hash : hashes) words_[hash >> shift_ >> kInWord] |= 1U << (hash >> shift_ & 31);
}

template <typename Pairs>
[[gnu::always_inline]] inline void Filter::LookBy(Pairs pairs_in, const uint8_t* bytes, size_t size, uint32_t* places) const {
  static_assert(kAtOnce == 4 * kWord);
  // Most of them have nothing. No branch depends on that, since none could be foretold.
  std::array<uint16_t, kMost / kWord> eights;
  size_t count = 0;
  for (size_t at = 0; at < size; at += kAtOnce) {
    places[at / kAtOnce] = pairs_in(bytes + at);
    for (size_t eight = at; eight < at + kAtOnce; eight += kWord) {
      eights[count] = static_cast<uint16_t>(eight);
      count += HasSome(bytes + eight) & 1;
    }
  }
  for (size_t one = 0; one < count; one++) places[eights[one] / kAtOnce] |= PlacesOf(bytes + eights[one]) << (eights[one] % kAtOnce);
}

// The lowest bit: at one of eight places.
inline uint32_t Filter::HasSome(const uint8_t* bytes) const {
  const uint64_t first = Folded(WordAt(bytes));
  const uint64_t second = Folded(WordAt(bytes + kRow));
  return any_.Has(HashOf(first)) | any_.Has(HashOf(first >> 16)) | any_.Has(HashOf(second)) | any_.Has(HashOf(second >> 16));
}

// Of eight.
inline uint32_t Filter::PlacesOf(const uint8_t* bytes) const {
  uint32_t places = 0;
  for (size_t one = 0; one < kWord; one += 2) {
    const uint32_t hash = HashOf(Folded(WordAt(bytes + one)));
    const uint32_t other = OtherBits(hash);
    const uint32_t has = any_.Has(hash) & 1;
    places |= (has & here_.bits.Has(other)) << one | (has & behind_.bits.Has(other)) << (one + 1);
  }
  return places;
}

#if defined(__x86_64__)
SLUICE_AVX2 void Filter::LookFast(const uint8_t* bytes, size_t size, uint32_t* places) const {
  LookBy([this](const uint8_t* from) SLUICE_AVX2 { return PairsIn(pairs_, from); }, bytes, size, places);
}
#endif

void Filter::Look(const uint8_t* bytes, size_t size, uint32_t* places) const {
  if (twos_.empty()) return LookBy([](const uint8_t*) { return 0; }, bytes, size, places);
#if defined(__x86_64__)
  if (HasAvx2()) return LookFast(bytes, size, places);
#endif
  const auto pairs_in = [this](const uint8_t* from) {
    uint32_t found = 0;
    for (size_t one = 0; one < kAtOnce; one++) found |= static_cast<uint32_t>(pairs_.At(from + one) != 0) << one;
    return found;
  };
  LookBy(pairs_in, bytes, size, places);
}

}  // namespace sluice::places
