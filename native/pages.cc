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

constexpr uint64_t kLeft = uint64_t{1} << 30;
// In memory, or somewhere else in a network.
constexpr std::array<uint32_t, 7> kElsewhere{TMPFS_MAGIC,      RAMFS_MAGIC,      NFS_SUPER_MAGIC, SMB_SUPER_MAGIC,
                                             CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC, FUSE_SUPER_MAGIC};

thread_local Pages* noting = nullptr;

class File {
 public:
  // Has no name: it goes with the last map of it.
  explicit File(const std::string& folder) : descriptor_(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR)) {
    if (descriptor_ != -1) return;
    std::string path = folder + "/pages-XXXXXX";
    descriptor_ = mkostemp(path.data(), O_CLOEXEC);
    if (descriptor_ != -1) unlink(path.c_str());
  }
  ~File() {
    if (descriptor_ != -1) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return descriptor_; }

  // On a disk of this machine, which has enough left for others then.
  bool HasRoomFor(size_t size) const {
    struct statfs facts = {};
    if (descriptor_ == -1 || fstatfs(descriptor_, &facts) != 0) return false;
    if (std::find(kElsewhere.begin(), kElsewhere.end(), static_cast<uint32_t>(facts.f_type)) != kElsewhere.end()) return false;
    return static_cast<uint64_t>(facts.f_bavail) * static_cast<uint64_t>(facts.f_bsize) >= size + kLeft;
  }

  // What the disk has not taken could be lost later, without a word.
  bool Sync() const { return fdatasync(descriptor_) == 0; }

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

  bool Read(uint8_t* bytes, size_t size, off_t at) const {
    while (size > 0) {
      const ssize_t got = pread(descriptor_, bytes, size, at);
      if (got == -1 && errno == EINTR) continue;
      if (got <= 0) return false;
      bytes += got;
      size -= static_cast<size_t>(got);
      at += got;
    }
    return true;
  }

 private:
  int descriptor_;
};

constexpr int kBoth = PROT_READ | PROT_WRITE;

// Shared: what is written later belongs to the file as well. False: it stays in memory.
bool Replace(uint8_t* start, size_t size, const File& file, off_t at) {
  if (mmap(start, size, kBoth, MAP_SHARED | MAP_FIXED, file.descriptor(), at) != MAP_FAILED) return true;
  // Older kernels have taken the memory away by then.
  const bool is_back = mmap(start, size, kBoth, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  if (!is_back || !file.Read(start, size, at)) std::abort();
  return false;
}

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

void Pages::MoveToFile(const std::string& folder) const {
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
    if (!Replace(reinterpret_cast<uint8_t*>(begin), end - begin, file, at)) return;
    at += static_cast<off_t>(end - begin);
  }
}

}  // namespace sluice
