// SPDX-License-Identifier: GPL-2.0-only
// Notes maps, and puts a file in the place of their memory.
#include "pages.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

namespace sluice {
namespace {

// Bytes that others find on the disk afterwards.
constexpr uint64_t kLeft = uint64_t{1} << 30;
// File systems that are no disk of this machine: in memory, of a network, or of a program.
constexpr std::array<uint32_t, 7> kNoDisk{TMPFS_MAGIC,      RAMFS_MAGIC,      NFS_SUPER_MAGIC, SMB_SUPER_MAGIC,
                                          CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC, FUSE_SUPER_MAGIC};
constexpr int kBoth = PROT_READ | PROT_WRITE;

thread_local Pages* noting = nullptr;

// Has no name, and goes with the last map of it. Where a file system has no such files there is none.
class File {
 public:
  explicit File(const std::string& folder) : descriptor_(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR)) {}
  ~File() {
    if (descriptor_ != -1) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool HasRoomFor(size_t size) const {
    struct statfs facts = {};
    if (descriptor_ == -1 || fstatfs(descriptor_, &facts) != 0) return false;
    if (std::find(kNoDisk.begin(), kNoDisk.end(), static_cast<uint32_t>(facts.f_type)) != kNoDisk.end()) return false;
    return static_cast<uint64_t>(facts.f_bavail) * static_cast<uint64_t>(facts.f_bsize) >= size + kLeft;
  }

  bool Write(const uint8_t* bytes, size_t size, off_t at) const {
    while (size > 0) {
      const ssize_t written = pwrite(descriptor_, bytes, size, at);
      if (written == -1 && errno == EINTR) continue;
      if (written <= 0) return false;
      bytes += written;
      size -= static_cast<size_t>(written);
      at += written;
    }
    return true;
  }

  // What the disk has not taken could be lost later, without a word.
  bool Sync() const { return fdatasync(descriptor_) == 0; }

  // Shared: what is written to the memory later belongs to the file as well. False: it stays as it was.
  bool TakePlaceOf(uint8_t* start, size_t size, off_t at) const {
    void* const map = mmap(nullptr, size, kBoth, MAP_SHARED, descriptor_, at);
    if (map == MAP_FAILED) return false;
    // The kernel has taken the memory away by the time it finds out that it lacks some of its own.
    if (mremap(map, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, start) == MAP_FAILED) std::abort();
    return true;
  }

 private:
  int descriptor_;
};

}  // namespace

Pages::Noting::Noting(Pages& pages) { noting = &pages; }

Pages::Noting::~Noting() { noting = nullptr; }

Pages* Pages::OfThread() { return noting; }

void Pages::Add(void* start, size_t size) {
  const auto begin = reinterpret_cast<uintptr_t>(start);
  pieces_[begin] = begin + size;
}

// What lies behind a gap in a piece is noted no more.
void Pages::Forget(void* start, size_t size) {
  const auto begin = reinterpret_cast<uintptr_t>(start);
  auto piece = pieces_.lower_bound(begin);
  if (piece != pieces_.begin()) --piece;
  while (piece != pieces_.end() && piece->first < begin + size) {
    if (piece->second <= begin) {
      ++piece;
    } else if (piece->first < begin) {
      piece->second = begin;
      ++piece;
    } else {
      piece = pieces_.erase(piece);
    }
  }
}

void Pages::MoveToFile(const std::string& folder) {
  const File file(folder);
  size_t all = 0;
  for (const auto& [begin, end] : pieces_) all += end - begin;
  if (!file.HasRoomFor(all)) return;
  // Neighbours in memory are neighbours in the file: the kernel has one map of them.
  off_t at = 0;
  for (const auto& [begin, end] : pieces_) {
    if (!file.Write(reinterpret_cast<uint8_t*>(begin), end - begin, at)) return;
    at += static_cast<off_t>(end - begin);
  }
  if (!file.Sync()) return;
  at = 0;
  for (const auto& [begin, end] : pieces_) {
    if (!file.TakePlaceOf(reinterpret_cast<uint8_t*>(begin), end - begin, at)) return;
    at += static_cast<off_t>(end - begin);
  }
  are_in_file_ = true;
}

void Pages::Leave() const {
  if (!are_in_file_) return;
  for (const auto& [begin, end] : pieces_) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace sluice
