// SPDX-License-Identifier: GPL-2.0-only
// Names are copied and kept for the life of the process. They are added under a lock, and read without one.
#include "content-types.h"

#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <string>

namespace sluice::content_types {
namespace {

// Never destroyed: a scan thread may still look at them while the process ends.
std::array<std::string, kMost>& Names() {
  static auto& names = *new std::array<std::string, kMost>();
  return names;
}

std::atomic<uint32_t> count = 0;
std::mutex adding;

uint32_t Find(std::string_view name, uint32_t from, uint32_t until) {
  for (uint32_t at = from; at < until; at++) {
    if (Names()[at] == name) return at + 1;
  }
  return kNone;
}

}  // namespace

uint32_t NumberOf(std::string_view name) noexcept {
  const uint32_t seen = count.load(std::memory_order_acquire);
  if (const uint32_t known = Find(name, 0, seen); known != kNone) return known;
  const std::lock_guard<std::mutex> lock(adding);
  const uint32_t end = count.load(std::memory_order_relaxed);
  if (const uint32_t known = Find(name, seen, end); known != kNone) return known;
  if (end == kMost) return kNone;
  try {
    Names()[end] = name;
  } catch (const std::bad_alloc&) {
    return kNone;
  }
  count.store(end + 1, std::memory_order_release);
  return end + 1;
}

std::string_view NameOf(uint32_t number) noexcept {
  if (number == kNone || number > count.load(std::memory_order_acquire)) return {};
  return Names()[number - 1];
}

}  // namespace sluice::content_types
