// SPDX-License-Identifier: GPL-2.0-only
// Counts the work of a load.
#include "progress.h"

#include <algorithm>

namespace sluice {
namespace {

// Reading signatures takes about so many times as long as compiling them.
constexpr uint64_t kReadWork = 6;

constexpr uint64_t kBetweenReports = 1024;

}  // namespace

Progress::Part::Part(Progress& whole, uint64_t signatures, uint64_t work_of_each)
    : whole_(whole),
      work_of_each_(kReadWork * work_of_each),
      read_work_(signatures * work_of_each_),
      compile_work_(signatures * work_of_each) {
  const std::lock_guard lock(whole_.mutex_);
  whole_.total_ += read_work_ + compile_work_;
}

void Progress::Part::Read() {
  // There may be more of them than were expected.
  if (++read_ % kBetweenReports == 0) Reach(std::min(read_ * work_of_each_, read_work_));
}

void Progress::Part::Compiled(uint64_t done, uint64_t total) {
  if (done < total) Reach(read_work_ + compile_work_ * done / total);
}

void Progress::Part::Reach(uint64_t work) {
  if (work <= done_) return;
  whole_.Add(work - done_);
  done_ = work;
}

void Progress::Add(uint64_t work) {
  const std::lock_guard lock(mutex_);
  done_ += work;
  report_(static_cast<double>(done_) / static_cast<double>(total_));
}

}  // namespace sluice
