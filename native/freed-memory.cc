// SPDX-License-Identifier: GPL-2.0-only
// mallopt(3) and malloc_trim(3); what glibc's arenas are: https://sourceware.org/glibc/wiki/MallocInternals
#include "freed-memory.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <vector>

namespace sluice {
namespace {

// Freeing a piece of this size makes glibc look at the end of its arena.
constexpr size_t kPiece = 128 << 10;

// A thread's first allocation is in an arena that no other thread has, and where there is none in the next one of all. So threads that are there at one time,
// twice as many as there are arenas, are in all of them.
void FreeInEachArena() {
  const char* const arenas = std::getenv("MALLOC_ARENA_MAX");
  const int wanted = arenas == nullptr ? 0 : 2 * std::atoi(arenas);
  std::atomic<size_t> freed = 0;
  std::atomic<bool> are_all = false;
  std::vector<std::jthread> threads;
  const auto free_piece = [&] {
    void* volatile const piece = std::malloc(kPiece);
    std::free(piece);
    freed++;
    freed.notify_one();
    are_all.wait(false);
  };
  try {
    while (static_cast<int>(threads.size()) < wanted) threads.emplace_back(free_piece);
  } catch (const std::system_error&) {
    // There may be no more threads: the rest stays.
  }
  for (size_t now = freed; now < threads.size(); now = freed) freed.wait(now);
  are_all = true;
  are_all.notify_all();
}

}  // namespace

// 32 MiB is the most that M_MMAP_THRESHOLD takes; both are refused by other C libraries, where nothing is lost.
void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

void GiveMemoryBack() {
  malloc_trim(0);
  // It leaves the ends of all arenas but the first: of a load some 25 MB.
  mallopt(M_TRIM_THRESHOLD, 0);
  FreeInEachArena();
  KeepFreedMemory();
}

}  // namespace sluice
