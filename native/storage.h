// SPDX-License-Identifier: GPL-2.0-only
// The folder libclamav unpacks into, and whether it can at this moment.
#pragma once

#include <string>

namespace sluice {

class Storage {
 public:
  explicit Storage(std::string directory);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  // The folder is there with room for files, and the process may open more; takes about a microsecond.
  bool Works() const;

  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
  int descriptor_;
};

}  // namespace sluice
