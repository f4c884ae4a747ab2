// SPDX-License-Identifier: GPL-2.0-only
// Between libclamav and the C library's maps of memory.
#include "maps.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "files.h"
#include "pages.h"
#include "tables.h"

namespace sluice::maps {
namespace {

constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS;
// libclamav keeps so many bytes of one file in memory, whatever its size.
constexpr size_t kFilled = size_t{8} * 1024 * 1024;

thread_local Arena arena;

// As the system does it.
size_t InPages(size_t size) {
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

void* Mmap(void* address, size_t size, int protection, int flags, int descriptor, off_t offset) {
  const bool is_memory = address == nullptr && flags == kAnonymous && protection == (PROT_READ | PROT_WRITE);
  if (is_memory && files::IsScanning()) {
    if (void* const taken = arena.Take(InPages(size)); taken != nullptr) return taken;
    // All of it is written to soon.
    if (size <= kFilled) flags |= MAP_POPULATE;
  }
  void* const start = mmap(address, size, protection, flags, descriptor, offset);
  if (Pages* const pages = Pages::OfThread(); pages != nullptr && is_memory && start != MAP_FAILED) pages->Add(start, InPages(size));
  return start;
}

int Munmap(void* address, size_t size) {
  if (arena.GiveBack(address, InPages(size))) return 0;
  if (Pages* const pages = Pages::OfThread(); pages != nullptr) pages->Forget(address, InPages(size));
  return munmap(address, size);
}

const std::array kSubstitutes{
    tables::Substitute{"mmap", reinterpret_cast<void*>(Mmap)},
    tables::Substitute{"mmap64", reinterpret_cast<void*>(Mmap)},
    tables::Substitute{"munmap", reinterpret_cast<void*>(Munmap)},
};

}  // namespace

void Watch() { tables::Replace(kSubstitutes); }

Arena::~Arena() {
  if (start_ != nullptr) munmap(start_, kSize);
}

void* Arena::Take(size_t size) {
  const size_t begin = count_ == 0 ? 0 : pieces_[count_ - 1].end;
  if (size == 0 || size > kSize - begin || count_ == pieces_.size() || lacks_memory_) return nullptr;
  if (start_ == nullptr) {
    void* const pages = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, kAnonymous | MAP_POPULATE, -1, 0);
    lacks_memory_ = pages == MAP_FAILED;
    if (lacks_memory_) return nullptr;
    start_ = static_cast<uint8_t*>(pages);
  }
  pieces_[count_++] = {begin + size, true};
  return start_ + begin;
}

bool Arena::GiveBack(void* address, size_t size) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto start = reinterpret_cast<uintptr_t>(start_);
  if (start_ == nullptr || at < start || at >= start + kSize) return false;
  std::memset(address, 0, size);
  const size_t end = at - start + size;
  for (size_t place = 0; place < count_; place++) {
    if (pieces_[place].end == end) pieces_[place].taken = false;
  }
  while (count_ > 0 && !pieces_[count_ - 1].taken) count_--;
  return true;
}

}  // namespace sluice::maps
