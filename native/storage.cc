// SPDX-License-Identifier: GPL-2.0-only
// The storage probe: finds a missing or full folder and a process without free descriptors.
#include "storage.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace sluice {
namespace {

int OpenNameless(const std::string& directory) {
  int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  // A file system without nameless files.
  std::string path = directory + "/probe-XXXXXX";
  file = mkostemp(path.data(), O_CLOEXEC);
  if (file >= 0) unlink(path.c_str());
  return file;
}

}  // namespace

bool StorageWorks(const std::string& directory) {
  int file = OpenNameless(directory);
  if (file < 0) return false;
  bool written = write(file, "", 1) == 1;
  close(file);
  return written;
}

}  // namespace sluice
