// SPDX-License-Identifier: GPL-2.0-only
// Pages that grow in place where they can, and go back to the kernel at once.
#include "held.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "quota.h"

namespace sluice {

Held::~Held() { Release(); }

Held& Held::operator=(Held&& other) noexcept {
  if (this != &other) {
    Release();
    start_ = std::exchange(other.start_, nullptr);
    size_ = std::exchange(other.size_, 0);
    room_ = std::exchange(other.room_, 0);
  }
  return *this;
}

void Held::Release() {
  if (start_ == nullptr) return;
  munmap(start_, room_);
  quota::GiveBack(room_);
  start_ = nullptr;
}

std::span<uint8_t> Held::Room() {
  if (room_ - size_ < kStep) {
    const size_t more = std::max(room_, 4 * kStep);
    if (!quota::Take(more)) return {};
    void* grown = start_ == nullptr ? mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                    : mremap(start_, room_, room_ + more, MREMAP_MAYMOVE);
    if (grown == MAP_FAILED) {
      quota::GiveBack(more);
      return {};
    }
    start_ = static_cast<uint8_t*>(grown);
    room_ += more;
  }
  return {start_ + size_, room_ - size_};
}

void Held::Finish() {
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t needed = (size_ + page - 1) / page * page;
  if (needed == 0 || needed == room_ || mremap(start_, room_, needed, 0) == MAP_FAILED) return;
  quota::GiveBack(room_ - needed);
  room_ = needed;
}

}  // namespace sluice
