// SPDX-License-Identifier: GPL-2.0-only
// A filter over windows of six bytes, and a table of the windows that some literal has.
#include "literals.h"

#include <algorithm>
#include <bit>
#include <bitset>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include "bytes.h"
#include "gates.h"
#include "hex.h"
#include "report.h"

namespace sluice::literals {
namespace {

constexpr size_t kWindow = 6;
constexpr size_t kLengthMax = 64;
constexpr uint32_t kTargets = 16;
constexpr uint64_t kWindowMask = (1ULL << (8 * kWindow)) - 1;
constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;

uint64_t WindowAt(const uint8_t* bytes) {
  uint8_t padded[8] = {};
  std::memcpy(padded, bytes, kWindow);
  return WordAt(padded);
}

// Its bytes are in one text with those of all others: thousands of small pieces of memory would lie between what is free, and keep it.
struct Literal {
  uint32_t begin;
  // One more than the index of the next one with the same window; 0: there is none.
  uint32_t next;
  Gate gate;
  uint8_t size;
  // Where its window begins.
  uint8_t start;
};

size_t DifferentIn(std::string_view bytes) {
  std::bitset<256> met;
  for (const char byte : bytes) met.set(static_cast<uint8_t>(byte));
  return met.count();
}

// In how many places of literals windows lie, about: of those that others share, all are compared wherever one is met.
class Shared {
 public:
  Shared() : counts_(1U << kBits) {}

  void Add(std::string_view bytes) {
    for (size_t at = 0; at + kWindow <= bytes.size(); at++) {
      uint8_t& count = CountOf(bytes, at);
      if (count < kMany) count++;
    }
  }

  // Where the window begins that the fewest share, and of these the one with the most different bytes: others are in many contents.
  size_t BestOf(std::string_view bytes) {
    size_t best = 0;
    uint8_t fewest = CountOf(bytes, 0);
    const auto different = [&](size_t start) { return DifferentIn(bytes.substr(start, kWindow)); };
    for (size_t at = 1; at + kWindow <= bytes.size(); at++) {
      const uint8_t count = CountOf(bytes, at);
      if (count > fewest || (count == fewest && different(at) <= different(best))) continue;
      best = at;
      fewest = count;
    }
    return best;
  }

 private:
  static constexpr int kBits = 20;
  // With more of them it is no choice.
  static constexpr uint8_t kMany = 255;
  uint8_t& CountOf(std::string_view bytes, size_t at) {
    return counts_[WindowAt(reinterpret_cast<const uint8_t*>(bytes.data()) + at) * kMultiplier >> (64 - kBits)];
  }
  std::vector<uint8_t> counts_;
};

// What files of a kind begin with, as far as libclamav tells them by it.
std::string_view BeginningOf(uint32_t target) {
  constexpr uint32_t kProgram = 1;
  constexpr uint32_t kCompound = 2;
  if (target == kProgram) return "MZ";
  if (target == kCompound) return "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";
  return {};
}

}  // namespace

struct Literals::Set {
  void Add(std::string_view literal, Gate gate) {
    literals.push_back({static_cast<uint32_t>(bytes.size()), 0, gate, static_cast<uint8_t>(literal.size()), 0});
    bytes += literal;
  }

  // Once, after the last one.
  void Index() {
    literals.shrink_to_fit();
    bytes.shrink_to_fit();
    constexpr size_t kBitsEach = 32;
    constexpr size_t kBitsMin = 1 << 12;
    // They fit into the second cache of today's processors.
    constexpr size_t kBitsMax = 1 << 21;
    shift = 64 - std::countr_zero(std::clamp(std::bit_ceil(kBitsEach * literals.size()), kBitsMin, kBitsMax));
    filter.resize(1ULL << (64 - shift - 6));
    slots.resize(std::bit_ceil(2 * literals.size()));
    Shared shared;
    for (const Literal& literal : literals) shared.Add(BytesOf(literal));
    for (uint32_t index = 0; index < literals.size(); index++) {
      Literal& literal = literals[index];
      literal.start = static_cast<uint8_t>(shared.BestOf(BytesOf(literal)));
      const uint64_t window = WindowAt(reinterpret_cast<const uint8_t*>(BytesOf(literal).data()) + literal.start);
      const uint64_t bit = window * kMultiplier >> shift;
      filter[bit >> 6] |= 1ULL << (bit & 63);
      Slot& slot = SlotOf(window);
      literal.next = std::exchange(slot.last, index + 1);
      slot.window = window;
    }
  }

  void Find(std::span<const uint8_t> content, const std::function<void(Gate)>& found) const {
    size_t at = 0;
    for (; at + sizeof(uint64_t) <= content.size(); at++) {
      const uint64_t window = WordAt(content.data() + at) & kWindowMask;
      const uint64_t bit = window * kMultiplier >> shift;
      if ((filter[bit >> 6] >> (bit & 63) & 1) != 0) Compare(content, at, window, found);
    }
    for (; at + kWindow <= content.size(); at++) Compare(content, at, WindowAt(content.data() + at), found);
  }

  std::string_view BytesOf(const Literal& literal) const { return {bytes.data() + literal.begin, literal.size}; }

  std::vector<Literal> literals;

 private:
  struct Slot {
    uint64_t window = 0;
    // One more than the index of the last literal that has it; 0: the slot is free.
    uint32_t last = 0;
  };

  size_t PlaceOf(uint64_t window) const {
    size_t place = (window * kMultiplier >> 20) & (slots.size() - 1);
    while (slots[place].last != 0 && slots[place].window != window) place = (place + 1) & (slots.size() - 1);
    return place;
  }
  Slot& SlotOf(uint64_t window) { return slots[PlaceOf(window)]; }

  void Compare(std::span<const uint8_t> content, size_t at, uint64_t window, const std::function<void(Gate)>& found) const {
    for (uint32_t one = slots[PlaceOf(window)].last; one != 0; one = literals[one - 1].next) {
      const Literal& literal = literals[one - 1];
      if (at < literal.start || content.size() - (at - literal.start) < literal.size) continue;
      if (std::memcmp(content.data() + (at - literal.start), BytesOf(literal).data(), literal.size) == 0) found(literal.gate);
    }
  }

  int shift;
  std::vector<uint64_t> filter;
  std::vector<Slot> slots;
  // Of all literals.
  std::string bytes;
};

Literals::~Literals() = default;

Literals::Literals(const std::string& path, size_t count) : sets_(kTargets) {
  std::ifstream file(path);
  size_t read = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    const auto refuse = [&] { throw LoadError("Cannot read the gate " + line + " in " + path); };
    const size_t name_end = line.find(':');
    const size_t target_end = line.find(':', name_end + 1);
    constexpr std::string_view kAnywhere = "*:";
    if (target_end == std::string::npos || line.compare(target_end + 1, kAnywhere.size(), kAnywhere) != 0) refuse();
    const auto gate = gates::Parse(std::string_view(line).substr(0, name_end));
    uint32_t target = kTargets;
    std::from_chars(line.data() + name_end + 1, line.data() + target_end, target);
    const std::string bytes = BytesOfHex(std::string_view(line).substr(target_end + 1 + kAnywhere.size()));
    if (!gate || target >= kTargets || bytes.size() < kWindow || bytes.size() > kLengthMax) refuse();
    if (!sets_[target]) sets_[target] = std::make_unique<Set>();
    sets_[target]->Add(bytes, *gate);
    read++;
  }
  if (!file.eof()) throw LoadError("Cannot read the gates in " + path);
  if (read != count) throw LoadError("Gates are missing in " + path);
  for (const std::unique_ptr<Set>& set : sets_) {
    if (set) set->Index();
  }
}

void Literals::Find(uint32_t target, std::span<const uint8_t> bytes, const std::function<void(Gate)>& found) const {
  if (target < sets_.size() && sets_[target]) sets_[target]->Find(bytes, found);
}

// Large enough to be given in pieces, with literals at the beginning, at the end and in between, and nothing else for a filter to stop at.
std::vector<Literals::Sample> Literals::Samples() const {
  constexpr size_t kBytes = 600'000;
  constexpr size_t kOfEach = 64;
  std::vector<Sample> samples;
  for (uint32_t target = 0; target < sets_.size(); target++) {
    if (!sets_[target]) continue;
    Sample sample{std::string(BeginningOf(target)), {}};
    const Set& set = *sets_[target];
    const auto& all = set.literals;
    const size_t count = std::min(kOfEach, all.size());
    for (size_t one = 0; one < count; one++) {
      const Literal& literal = all[one * all.size() / count];
      sample.content.resize(std::max(sample.content.size(), (one + 1) * (kBytes / (count + 1))));
      sample.content += set.BytesOf(literal);
      sample.gates.push_back(literal.gate.number);
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace sluice::literals
