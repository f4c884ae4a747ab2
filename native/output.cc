// SPDX-License-Identifier: GPL-2.0-only
#include "output.h"

#include <algorithm>
#include <cstring>

namespace sluice::streams {

std::span<uint8_t> Output::Room() {
  if (size_ > limit_) {
    stopped_ = End::kTooLarge;
  } else if (Clock::now() >= deadline_) {
    stopped_ = End::kLate;
  } else if (expected_ != nullptr) {
    // What is something else is mostly so from its beginning on.
    constexpr size_t kStep = 4096;
    if (!differs_) return std::span(spare_).first(kStep);
  } else if (held_ == nullptr) {
    return spare_;
  } else if (std::span<uint8_t> room = held_->Room(); !room.empty()) {
    // The clock is looked at again before much of it is full. One byte too many says that it is too large.
    constexpr uint64_t kStep = 1 << 20;
    return room.first(std::min<uint64_t>({room.size(), kStep, limit_ - size_ + 1}));
  } else {
    stopped_ = End::kNoRoom;
  }
  return {};
}

void Output::Took(size_t count) {
  if (expected_ != nullptr) differs_ = differs_ || count > limit_ - size_ || std::memcmp(expected_ + size_, spare_, count) != 0;
  size_ += count;
  if (held_ != nullptr) held_->Took(count);
}

bool Output::Put(Bytes bytes) {
  while (!bytes.empty()) {
    const std::span<uint8_t> room = Room();
    if (room.empty()) return false;
    const size_t count = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), count);
    Took(count);
    bytes = bytes.subspan(count);
  }
  return true;
}

}  // namespace sluice::streams
