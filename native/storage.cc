// SPDX-License-Identifier: GPL-2.0-only
// The storage probe: finds a missing or full folder and a process without free descriptors, without making a file.
#include "storage.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <utility>

namespace sluice {
namespace {

// What a scan must find free; small, because a container's /dev/shm is (64 MB by default).
constexpr unsigned long long kBytes = 1024 * 1024;
constexpr unsigned long long kFiles = 64;
constexpr int kDescriptors = 2;

bool HasRoom(const std::string& directory) {
  struct statvfs facts;
  if (statvfs(directory.c_str(), &facts) != 0 || (facts.f_flag & ST_RDONLY) != 0) return false;
  if (facts.f_bavail * static_cast<unsigned long long>(facts.f_frsize) < kBytes) return false;
  // Some file systems do not count files, and say so with a total of zero.
  return facts.f_files == 0 || facts.f_favail >= kFiles;
}

bool HasDescriptors(int any) {
  int taken[kDescriptors];
  int count = 0;
  while (count < kDescriptors && (taken[count] = fcntl(any, F_DUPFD_CLOEXEC, 0)) >= 0) count++;
  for (int i = 0; i < count; i++) close(taken[i]);
  return count == kDescriptors;
}

}  // namespace

Storage::Storage(std::string directory)
    : directory_(std::move(directory)), descriptor_(open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}

Storage::~Storage() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool Storage::Works() const { return HasDescriptors(descriptor_) && HasRoom(directory_); }

}  // namespace sluice
