// SPDX-License-Identifier: GPL-2.0-only
// A table of the windows that are asked about. Bytes are gone over in blocks, so that memory is there when it is looked at.
#include "window-counts.h"

#include <algorithm>
#include <array>
#include <bit>

#include "windows.h"

namespace sluice {
namespace {

constexpr size_t kLayerBytesMax = 24 << 20;

uint64_t NumberOf(WindowHash hash) { return uint64_t{hash.second >> 25} << 32 | hash.first; }

}  // namespace

WindowCounts::WindowCounts(const std::vector<uint64_t>& windows)
    : slots_(std::bit_ceil(2 * windows.size() + 1)), counts_(new std::atomic<uint32_t>[slots_.size()]()) {
  for (const uint64_t window : windows) slots_[SlotOf(window)] = window + 1;
}

size_t WindowCounts::SlotOf(uint64_t window) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = window & mask;
  while (slots_[slot] != 0 && slots_[slot] != window + 1) slot = (slot + 1) & mask;
  return slot;
}

void WindowCounts::Met::Note(const char* type, std::string_view bytes) {
  const int of_class = ClassOfType(type);
  bytes = bytes.substr(0, kLayerBytesMax);
  NoteBytes(of_class, bytes, false);
  NoteBytes(of_class, bytes, true);
  if (!IsOfText(of_class)) return;
  std::vector<unsigned char> normal(bytes.size());
  const size_t length = NormalizeText(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), normal.data());
  NoteBytes(of_class, {reinterpret_cast<const char*>(normal.data()), length}, false);
}

void WindowCounts::Met::NoteBytes(int of_class, std::string_view bytes, bool in_small) {
  constexpr size_t kBlock = 64;
  std::array<uint64_t, kBlock> found;
  WindowWalk walk{};
  walk.since_capital = WINDOW;
  const size_t mask = counts_.slots_.size() - 1;
  for (size_t start = 0; start < bytes.size(); start += kBlock) {
    size_t count = 0;
    for (const char byte : bytes.substr(start, kBlock)) {
      if (!StepWindow(&walk, static_cast<unsigned char>(byte), in_small)) continue;
      found[count] = NumberOf(HashWindow(of_class, walk.window));
      __builtin_prefetch(counts_.slots_.data() + (found[count++] & mask));
    }
    for (size_t at = 0; at < count; at++) {
      const size_t slot = counts_.SlotOf(found[at]);
      if (counts_.slots_[slot] != 0) slots_.insert(slot);
    }
  }
}

void WindowCounts::Add(const Met& met) const {
  for (const size_t slot : met.slots_) counts_[slot].fetch_add(1, std::memory_order_relaxed);
}

std::vector<std::pair<uint64_t, uint32_t>> WindowCounts::Read() const {
  std::vector<std::pair<uint64_t, uint32_t>> counts;
  for (size_t slot = 0; slot < slots_.size(); slot++) {
    const uint32_t count = counts_[slot].load(std::memory_order_relaxed);
    if (count > 0) counts.emplace_back(slots_[slot] - 1, count);
  }
  return counts;
}

}  // namespace sluice
