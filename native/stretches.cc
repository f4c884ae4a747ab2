// SPDX-License-Identifier: GPL-2.0-only
// A filter of places at which something may begin (places.h), and a comparison of what passes it.
#include "stretches.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <numeric>
#include <tuple>

#include "bytes.h"
#include "rarity.h"

namespace sluice::stretches {
namespace {

using patterns::Item;
using patterns::kUnbounded;
using patterns::LengthOf;
using patterns::Part;

constexpr size_t kWord = sizeof(uint64_t);
// Of the four bytes, in bits and twice: below it they are in too many contents.
constexpr uint32_t kRare = 28;
// Of eight bytes, in bits.
constexpr uint32_t kRareEnough = 40;
// With more of them too many bytes pass it.
constexpr size_t kWindowsMost = 2048;
// A part with nothing rare in it, so close behind the one before, is looked for together with that one.
constexpr uint32_t kCloseMost = 512;
// What the matcher looks at beside a match, for words and lines, and more.
constexpr uint32_t kAround = 8;
// Bytes between stretches, below which two calls cost more than one.
constexpr uint32_t kApartLeast = 24;
// The part of a stretch of several matches by which it becomes longer.
constexpr uint32_t kFurther = 8;
constexpr size_t kBytesLeast = 64;
// At the end of a longer piece libclamav doesn't look for the ends of words and lines.
constexpr size_t kBytesMost = 131'072;
// With more stretches for the bytes of a piece, and more comparisons, it takes less time to match all of it.
constexpr size_t kBytesForStretch = 8;
constexpr size_t kStretchesFree = 64;
constexpr size_t kComparisonsForByte = 4;

uint64_t LastWord(std::span<const uint8_t> bytes) {
  uint8_t padded[kWord] = {};
  std::memcpy(padded, bytes.data(), std::min(bytes.size(), kWord));
  return WordAt(padded);
}

// Where a part is looked for.
struct Best {
  size_t at = 0;
  // Bytes in a row by which it is looked for, two to four; 0: fewer are known.
  size_t known = 0;
  uint32_t rarity = 0;
  // Of the two rows of four bytes that the filter asks for, the one that more contents have; 0: it asks for two bytes.
  uint32_t row_rarity = 0;

  auto worth() const { return std::tuple(row_rarity > 0 && rarity >= kRare, row_rarity, rarity); }
};

size_t KnownAt(const std::vector<Item>& items, size_t at) {
  size_t known = 0;
  while (known < places::kRow && at + known < items.size() && items[at + known].is_known()) known++;
  return known >= places::kPair ? known : 0;
}

uint32_t RarityAt(const std::vector<Item>& items, size_t at, size_t known) {
  uint32_t rarity = 0;
  for (size_t one = 0; one < kWord && at + one < items.size() && items[at + one].is_byte; one++) {
    const Item& item = items[at + one];
    if (!item.is_known()) continue;
    const bool repeats = one > 0 && item.value == items[at + one - 1].value;
    rarity += (repeats ? 1 : kRarity[item.value]) * (one < known ? 2 : 1);
  }
  return rarity;
}

// Of three bytes that are known, and of the one before or behind them if it is.
uint32_t RowRarityOf(std::span<const Item> row) {
  uint32_t rarity = 0;
  for (size_t at = 0; at < row.size(); at++) {
    if (!row[at].is_known()) continue;
    rarity += at > 0 && row[at].value == row[at - 1].value ? 1 : kRarity[row[at].value];
  }
  return rarity;
}

Best BestOf(const std::vector<Item>& items, size_t begin, size_t end) {
  const std::span<const Item> all(items.data() + begin, end - begin);
  Best best;
  for (size_t at = 0; at < all.size(); at++) {
    const size_t known = KnownAt(items, begin + at);
    if (known == 0 || (known == places::kPair && best.row_rarity > 0)) continue;
    Best one{begin + at, known, RarityAt(items, begin + at, known)};
    if (known > places::kPair) {
      const auto here = all.subspan(at, std::min(places::kRow, all.size() - at));
      const auto behind = at == 0 ? here.first(places::kRow - 1) : all.subspan(at - 1, places::kRow);
      one.row_rarity = std::min(RowRarityOf(here), RowRarityOf(behind));
    }
    if (one.worth() > best.worth()) best = one;
  }
  return best;
}

// One for the part, or where it is uneven for each row of bytes in it: libclamav begins with one of these, and may not come to the others.
std::vector<Best> PlacesOf(const std::vector<Item>& items) {
  std::vector<Best> places;
  for (size_t begin = 0; begin < items.size();) {
    const auto ends = [](const Item& item) { return !item.is_byte; };
    const size_t end = std::find_if(items.begin() + static_cast<ptrdiff_t>(begin), items.end(), ends) - items.begin();
    const Best best = BestOf(items, begin, end);
    if (best.known > 0) places.push_back(best);
    begin = end + 1;
  }
  return places;
}

// Value and mask of eight bytes, or of fewer where something comes whose length isn't known.
std::pair<uint64_t, uint64_t> WordOf(const std::vector<Item>& items, size_t at) {
  std::pair<uint64_t, uint64_t> word{0, 0};
  for (size_t one = 0; one < kWord && at + one < items.size() && items[at + one].is_byte; one++) {
    word.first |= static_cast<uint64_t>(items[at + one].value) << (8 * one);
    word.second |= static_cast<uint64_t>(items[at + one].mask) << (8 * one);
  }
  return word;
}

// So many bytes before these the eight begin of which the most bits are known.
uint32_t LeadOf(const std::vector<Item>& items, size_t at) {
  uint32_t best = 0;
  for (uint32_t lead = 1; lead <= places::kRow && lead <= at && items[at - lead].is_byte; lead++) {
    const auto bits = [&](uint32_t one) { return std::popcount(WordOf(items, at - one).second); };
    if (bits(lead) > bits(best)) best = lead;
  }
  return best;
}

// Where in a content; anywhere, where it depends on more than its beginning.
struct Offset {
  uint32_t first = 0;
  uint32_t last = kUnbounded;
  bool is_fixed() const { return first == last; }
};
Offset OffsetOf(std::string_view text) {
  Offset offset;
  uint32_t shift = 0;
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, offset.first);
  if (error != std::errc()) return {};
  if (at != end && *at == ',') {
    const auto parsed = std::from_chars(at + 1, end, shift);
    if (parsed.ec != std::errc()) return {};
    at = parsed.ptr;
  }
  if (at != end || shift > kUnbounded / 2 || offset.first > kUnbounded / 2) return {};
  offset.last = offset.first + shift;
  return offset;
}

}  // namespace

void Finder::Add(const Signature& signature) {
  if (!is_able_) return;
  const auto parts = patterns::Read(signature.hex, signature.any_case);
  is_able_ = parts && AddParts(*parts, signature);
}

bool Finder::AddParts(const std::vector<Part>& parts, const Signature& signature) {
  std::vector<std::vector<Best>> places;
  for (const Part& part : parts) places.push_back(PlacesOf(part.items));
  // What is weak and close behind the part before it is looked for with that one.
  const auto is_with_former = [&](size_t index) {
    if (parts[index].is_uneven() || parts[index].gap > kCloseMost) return false;
    return places[index].empty() || places[index].front().known < places::kRow || places[index].front().rarity < kRare;
  };
  for (size_t index = 0; index < parts.size();) {
    const std::vector<Item>& items = parts[index].items;
    std::vector<Best> bests = std::move(places[index]);
    // Where a match of others begins to libclamav isn't known.
    const Offset offset = index == 0 && !parts[index].is_uneven() ? OffsetOf(signature.offset) : Offset{};
    if (offset.is_fixed()) bests = {Best{}};
    if (bests.empty()) return false;
    uint32_t behind = 0;
    for (index++; index < parts.size() && is_with_former(index); index++) behind += parts[index].gap + LengthOf(parts[index].items);
    const uint16_t type = index == parts.size() ? signature.type : 0;
    if (behind > 0 && type != 0) types_behind_.insert(type);
    for (const Best& best : bests) {
      Window window = WindowAt(items, best.at);
      window.after += behind;
      window.has_more_parts = behind > 0;
      window.type = type;
      window.first = offset.first;
      window.last = offset.last;
      if (behind > 0) reach_ = std::max(reach_, window.after + kAround);
      if (offset.is_fixed()) {
        fixed_.push_back(window);
      } else {
        filter_.Add(items, best.at, best.known);
        (best.known == places::kRow ? long_ : short_).Add(window);
      }
    }
  }
  return true;
}

Finder::Window Finder::WindowAt(const std::vector<Item>& items, size_t at) {
  Window window{};
  window.before = LengthOf(std::span(items).first(at));
  window.after = LengthOf(std::span(items).subspan(at));
  window.lead = LeadOf(items, at);
  window.key = static_cast<uint32_t>(WordOf(items, at).first);
  std::tie(window.value, window.mask) = WordOf(items, at - window.lead);
  window.more = kNoMore;
  if (RarityAt(items, at - window.lead, 0) < kRareEnough) CompareMore(window, items, at);
  return window;
}

// All bytes around the place up to those whose number isn't known.
void Finder::CompareMore(Window& window, const std::vector<Item>& items, size_t at) {
  constexpr size_t kMost = 64;
  size_t begin = at;
  while (begin > 0 && at - begin < kMost && items[begin - 1].is_byte) begin--;
  size_t end = at;
  while (end < items.size() && end - at < kMost && items[end].is_byte) end++;
  if (end - begin <= kWord) return;
  window.more = static_cast<uint32_t>(more_.size());
  window.more_lead = static_cast<uint32_t>(at - begin);
  more_.emplace_back(items.begin() + begin, items.begin() + end);
}

void Finder::Table::Finish() {
  for (Window& window : windows_) window.key = KeyOf(window.key);
  begins_.resize(std::bit_ceil(2 * windows_.size() + 1) + 1);
  // What lies in the same contents is met once.
  const auto key = [](const Window& one) { return std::tie(one.key, one.value, one.mask, one.lead, one.more, one.type, one.first, one.last); };
  std::sort(windows_.begin(), windows_.end(), [&](const Window& one, const Window& other) {
    const size_t place = PlaceOf(one.key);
    const size_t other_place = PlaceOf(other.key);
    return place != other_place ? place < other_place : key(one) < key(other);
  });
  size_t kept = 0;
  for (const Window& window : windows_) {
    if (kept > 0 && key(windows_[kept - 1]) == key(window)) {
      Window& same = windows_[kept - 1];
      same.has_more_parts = same.has_more_parts || window.has_more_parts;
      same.before = std::max(same.before, window.before);
      same.after = std::max(same.after, window.after);
    } else {
      windows_[kept++] = window;
    }
  }
  windows_.resize(kept);
  windows_.shrink_to_fit();
  for (const Window& window : windows_) {
    keys_.push_back(window.key);
    begins_[PlaceOf(window.key) + 1]++;
  }
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
}

template <typename Met>
void Finder::Table::Each(uint64_t word, Met met) const {
  const uint32_t key = KeyOf(word);
  const size_t place = PlaceOf(key);
  for (uint32_t one = begins_[place]; one < begins_[place + 1]; one++) {
    if (keys_[one] == key) met(windows_[one]);
  }
}

void Finder::Finish() {
  long_.Finish();
  short_.Finish();
  if (!is_able_ || long_.windows().size() > kWindowsMost) {
    *this = Finder();
    is_able_ = false;
    return;
  }
  filter_.Finish();
  for (const auto* table : {&long_, &short_}) {
    for (const Window& window : table->windows()) {
      if ((window.value & window.mask) == 0) in_zeros_.push_back(window);
    }
  }
}

// One look through bytes.
class Finder::Search {
 public:
  Search(const Finder& finder, const Piece& piece, uint64_t& reach, std::vector<Stretch>& found)
      : finder_(finder), bytes_(piece.bytes), offset_(piece.offset), tells_types_(piece.tells_types), reach_(reach), found_(found) {}

  bool Run() {
    if (reach_ > offset_) GoOn();
    for (const Window& window : finder_.fixed_) {
      const uint64_t at = static_cast<uint64_t>(window.first) - offset_;
      if (window.first < offset_ || at >= bytes_.size()) continue;
      Compare(window, at, LastWord(bytes_.subspan(at)));
    }
    Skim();
    return is_worth_it_;
  }

 private:
  // With what began before.
  void GoOn() {
    for (const uint16_t type : finder_.types_behind_) NoteType(type);
    Take({0, static_cast<uint32_t>(std::min<uint64_t>(reach_ - offset_, bytes_.size()))});
  }

  void NoteType(uint16_t type) {
    if (type == 0 || !tells_types_) return;
    if (type_ != 0 && type_ != type) is_worth_it_ = false;
    type_ = type;
  }

  void Skim() {
    size_t at = 0;
    while (is_worth_it_ && bytes_.size() - at >= places::kAtOnce + places::kBehind) {
      const size_t size = std::min((bytes_.size() - at - places::kBehind) / places::kAtOnce * places::kAtOnce, places::kMost);
      MeetAll(bytes_.data() + at, at, size);
      at += size;
    }
    // What is too short to be looked at in place.
    if (!is_worth_it_) return;
    uint8_t last[2 * places::kAtOnce + places::kBehind] = {};
    std::memcpy(last, bytes_.data() + at, bytes_.size() - at);
    MeetAll(last, at, 2 * places::kAtOnce);
  }

  // Of all that are at `bytes`, where the content goes on at `begin`.
  void MeetAll(const uint8_t* bytes, size_t begin, size_t size) {
    std::array<uint32_t, places::kMost / places::kAtOnce> places;
    finder_.filter_.Look(bytes, size, places.data());
    for (size_t at = begin; at < begin + size && at < bytes_.size(); at += places::kAtOnce) {
      uint32_t here = places[(at - begin) / places::kAtOnce];
      if (here == 0 || (finder_.in_zeros_.empty() && IsInZeros(at))) continue;
      for (; here != 0; here &= here - 1) {
        const size_t place = at + static_cast<size_t>(std::countr_zero(here));
        if (place < bytes_.size()) Meet(place);
      }
    }
  }

  // All that is looked at together.
  bool IsInZeros(size_t from) const {
    constexpr uint8_t kZeros[places::kRow + places::kAtOnce + kWord] = {};
    if (from < places::kRow || bytes_.size() - from + places::kRow < sizeof kZeros) return false;
    return std::memcmp(bytes_.data() + from - places::kRow, kZeros, sizeof kZeros) == 0;
  }

  void Meet(size_t at) {
    const uint64_t word = WordFrom(at);
    const auto compare = [&](const Window& window) { Compare(window, at, word); };
    // All that is compared are zeros.
    if (word == 0 && at >= places::kRow && WordFrom(at - places::kRow) == 0) {
      std::for_each(finder_.in_zeros_.begin(), finder_.in_zeros_.end(), compare);
      return;
    }
    finder_.long_.Each(word, compare);
    finder_.short_.Each(word, compare);
  }

  void Compare(const Window& window, uint64_t at, uint64_t word) {
    if (++comparisons_ > kComparisonsForByte * bytes_.size()) is_worth_it_ = false;
    if (window.lead > at || IsTaken(window, at)) return;
    if (window.lead > 0) word = WordFrom(at - window.lead);
    if (((word ^ window.value) & window.mask) != 0) return;
    if (window.more != kNoMore && !LiesAt(finder_.more_[window.more], at, window.more_lead)) return;
    const uint64_t place = offset_ + at;
    if (place < window.first || place > static_cast<uint64_t>(window.last) + window.before) return;
    NoteType(window.type);
    if (window.has_more_parts) reach_ = std::max(reach_, place + window.after + kAround);
    Take(AroundOf(at, window));
  }

  Stretch AroundOf(uint64_t at, const Window& window) const {
    const uint64_t before = uint64_t{window.before} + kAround;
    const uint64_t end = std::min<uint64_t>(at + window.after + kAround, bytes_.size());
    return {static_cast<uint32_t>(at - std::min(at, before)), static_cast<uint32_t>(end)};
  }

  // A match would change nothing of what is found.
  bool IsTaken(const Window& window, uint64_t at) const {
    if (found_.empty() || (window.type != 0 && tells_types_)) return false;
    if (window.has_more_parts && offset_ + at + window.after + kAround > reach_) return false;
    const auto [begin, end] = AroundOf(at, window);
    return found_.back().begin <= begin && end <= found_.back().end;
  }

  bool LiesAt(const std::vector<Item>& items, size_t at, size_t lead) const {
    if (at < lead || bytes_.size() - (at - lead) < items.size()) return false;
    const uint8_t* bytes = bytes_.data() + (at - lead);
    return std::all_of(items.begin(), items.end(), [&](const Item& item) { return ((*bytes++ ^ item.value) & item.mask) == 0; });
  }

  uint64_t WordFrom(size_t at) const {
    return at + kWord <= bytes_.size() ? WordAt(bytes_.data() + at) : LastWord(bytes_.subspan(at));
  }

  void Take(Stretch stretch) {
    if (++stretches_ > kStretchesFree + bytes_.size() / kBytesForStretch) is_worth_it_ = false;
    // Windows come in order, what begins before them doesn't.
    while (!found_.empty() && found_.back().end + kApartLeast >= stretch.begin) {
      stretch = {std::min(stretch.begin, found_.back().begin), std::max(stretch.end, found_.back().end)};
      // Where many lie close to each other, more of them follow, which needn't be compared any more.
      const uint64_t further = uint64_t{stretch.end} + (stretch.end - stretch.begin) / kFurther;
      stretch.end = static_cast<uint32_t>(std::min<uint64_t>(further, bytes_.size()));
      found_.pop_back();
    }
    found_.push_back(stretch);
  }

  const Finder& finder_;
  const std::span<const uint8_t> bytes_;
  const uint32_t offset_;
  const bool tells_types_;
  uint64_t& reach_;
  std::vector<Stretch>& found_;
  uint16_t type_ = 0;
  size_t stretches_ = 0;
  size_t comparisons_ = 0;
  bool is_worth_it_ = true;
};

bool Finder::Find(const Piece& piece, uint64_t& reach, std::vector<Stretch>& found) const {
  found.clear();
  if (!is_able_) return false;
  const size_t size = piece.bytes.size();
  if (size >= kBytesLeast && size <= kBytesMost && Search(*this, piece, reach, found).Run()) return true;
  reach = uint64_t{piece.offset} + size + reach_;
  return false;
}

}  // namespace sluice::stretches
