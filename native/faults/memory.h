// SPDX-License-Identifier: GPL-2.0-only
// What can't be had: what this addon asks the C library for, for itself or for libclamav, memory or writes, fails as ordered.
#pragma once

#include <cstddef>
#include <set>

namespace sluice::faults {

// Of one kind, on one thread.
class Calls {
 public:
  // So many succeed from now on, the next one fails, and those after it succeed.
  void FailAfter(long count) {
    left_ = count;
    has_failed_ = false;
  }
  // None fails any more. Whether one has.
  bool Stop() {
    left_ = -1;
    return has_failed_;
  }
  bool Fails();

 private:
  // Until one fails; negative: none does.
  long left_ = -1;
  bool has_failed_ = false;
};

// Of the calling thread.
Calls& Allocations();
Calls& Maps();
// Of files, with what is synced.
Calls& Writes();

// What is allocated on this thread while it lives, and was not freed since. One at a time.
class Held {
 public:
  Held();
  ~Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  void Take(void* piece) { pieces_.insert(piece); }
  void GiveBack(void* piece) { pieces_.erase(piece); }
  size_t count() const { return pieces_.size(); }

 private:
  std::set<void*> pieces_;
};

}  // namespace sluice::faults
