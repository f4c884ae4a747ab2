// SPDX-License-Identifier: GPL-2.0-only
// What a scan wants of the file system, seen as it asks for it. libclamav makes and removes a folder for each scan, although most
// contents put nothing there: it is made when something is asked for in it. Storage is looked at only for scans that use any.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "storage.h"

namespace sluice::files {

// From now on calls of libclamav, and of the libraries that it is made of, are seen. Once, before the first scan.
void Watch();

// Whether a `Use` lives on the calling thread.
bool IsScanning();

// While it lives, no file that libclamav asks about on the calling thread has anything left to read: it counts the signatures of a
// folder before it loads them, byte by byte, and nobody asks for that count. Only for versions that ask for nothing else.
class NothingLeft {
 public:
  NothingLeft();
  ~NothingLeft();
  NothingLeft(const NothingLeft&) = delete;
  NothingLeft& operator=(const NothingLeft&) = delete;
};

// A scan on the calling thread, from its construction on. One at a time for a thread.
class Use {
 public:
  explicit Use(const Storage& storage);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  // Storage was short when the scan first wanted some, or is short now. False of a scan that has wanted none.
  bool LackedStorage() const;

  // Something was to be written that the bound on the folder has no room for, and whether this scan alone has filled it.
  bool was_refused() const { return refused_; }
  bool filled_by_others() const { return filled_by_others_; }

  // Before so many bytes are written to a file. False: there is no room for them.
  bool Write(uint64_t bytes);
  // Before what follows is asked of the system. False, with errno: it can't be had.
  bool Reach(const char* path);
  // True: the folder is the scan's own, and is made when it is needed.
  bool Postpone(const char* path);
  // True: the postponed folder is about to be removed.
  bool Leave(const char* path);
  // True: it was, and nothing is there.
  bool Forget(const char* path);

 private:
  const Storage& storage_;
  std::string folder_;  // postponed; empty: none is
  bool wanted_;
  bool leaving_ = false;
  bool lacked_ = false;
  bool refused_ = false;
  bool filled_by_others_ = false;
};

}  // namespace sluice::files
