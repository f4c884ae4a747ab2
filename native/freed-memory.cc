// SPDX-License-Identifier: GPL-2.0-only
// mallopt(3) and malloc_trim(3); what glibc's arenas are: https://sourceware.org/glibc/wiki/MallocInternals
#include "freed-memory.h"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
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

struct Range {
  uintptr_t begin;
  uintptr_t end;
};

// proc_pid_maps(5). Of files, and not to be written to.
std::vector<Range> FileMaps() {
  std::vector<Range> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Range range = {};
    char rights[5] = {};
    unsigned long file = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %*s %*s %lu", &range.begin, &range.end, rights, &file) != 4) continue;
    if (file != 0 && rights[1] == '-') found.push_back(range);
  }
  return found;
}

// While it is called nothing is unloaded. What the linker has written to lies in segments that may be written to; of the others nothing is lost, unless they
// are no file's any more (node --use-largepages).
int ForgetObject(dl_phdr_info* object, size_t, void* maps) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (int index = 0; index < object->dlpi_phnum; index++) {
    const auto& segment = object->dlpi_phdr[index];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
    const Range inside{(start + page - 1) / page * page, (start + segment.p_memsz) / page * page};
    for (const Range& map : *static_cast<const std::vector<Range>*>(maps)) {
      const uintptr_t begin = std::max(inside.begin, map.begin);
      const uintptr_t end = std::min(inside.end, map.end);
      if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
    }
  }
  return 0;
}

}  // namespace

// Both are refused by other C libraries, where nothing is lost.
void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

void GiveMemoryBack() {
  malloc_trim(0);
  // It leaves the ends of all arenas but the first: of a load some 25 MB.
  mallopt(M_TRIM_THRESHOLD, 0);
  FreeInEachArena();
  KeepFreedMemory();
}

void ForgetProgram() {
  std::vector<Range> maps = FileMaps();
  dl_iterate_phdr(ForgetObject, &maps);
}

}  // namespace sluice
