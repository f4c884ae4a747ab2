// SPDX-License-Identifier: GPL-2.0-only
// A table of two bytes for each window that is asked about. Bytes are gone over in blocks, so that memory is there when it is looked at.
#include "window-counts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <new>

#include "windows.h"

namespace sluice {
namespace {

uint64_t NumberOf(WindowHash hash) { return uint64_t{hash.second >> 25} << 32 | hash.first; }

// The lower bits of a million windows are its place: with these that is nearly all of the hash.
uint16_t MarkOf(uint64_t window) {
  constexpr int kLower = 23;
  return std::max<uint16_t>(1, static_cast<uint16_t>(window >> kLower));
}

}  // namespace

WindowCounts::WindowCounts(const std::vector<uint64_t>& windows, const Bounds& bounds)
    : bounds_(bounds), slots_(std::bit_ceil(2 * windows.size() + 1)) {
  const size_t mask = slots_.size() - 1;
  for (const uint64_t window : windows) {
    size_t slot = window & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = MarkOf(window);
  }
}

bool WindowCounts::Asks(uint64_t window) const {
  const size_t mask = slots_.size() - 1;
  const uint16_t mark = MarkOf(window);
  for (size_t slot = window & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    if (slots_[slot] == mark) return true;
  }
  return false;
}

void WindowCounts::Met::Note(const char* type, std::string_view bytes) noexcept {
  try {
    NoteForms(type, bytes);
  } catch (const std::bad_alloc&) {
    windows_.clear();
  }
}

// As they are, in small letters, and as normalised text.
void WindowCounts::Met::NoteForms(const char* type, std::string_view bytes) {
  const int of_class = ClassOfType(type);
  bytes = bytes.substr(0, std::min(counts_.bounds_.layer_bytes, bytes_left_));
  bytes_left_ -= bytes.size();
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
  for (size_t start = 0; start < bytes.size() && windows_.size() < counts_.bounds_.windows_of_content; start += kBlock) {
    size_t count = 0;
    for (const char byte : bytes.substr(start, kBlock)) {
      if (!StepWindow(&walk, static_cast<unsigned char>(byte), in_small)) continue;
      found[count] = NumberOf(HashWindow(of_class, walk.window));
      __builtin_prefetch(counts_.slots_.data() + (found[count++] & mask));
    }
    for (size_t at = 0; at < count; at++) {
      if (counts_.Asks(found[at])) windows_.insert(found[at]);
    }
  }
}

void WindowCounts::Add(const Met& met, uint32_t contents) const noexcept {
  const std::lock_guard guard(lock_);
  try {
    for (const uint64_t window : met.windows_) {
      const auto known = counts_.find(window);
      if (known != counts_.end()) {
        known->second += contents;
      } else if (counts_.size() < bounds_.windows) {
        counts_.emplace(window, contents);
      }
    }
  } catch (const std::bad_alloc&) {
    // A window that is common comes again.
  }
}

std::vector<std::pair<uint64_t, uint32_t>> WindowCounts::Read() const {
  const std::lock_guard guard(lock_);
  return {counts_.begin(), counts_.end()};
}

}  // namespace sluice
