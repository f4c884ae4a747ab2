// SPDX-License-Identifier: GPL-2.0-only
// How far a load is: one number for all of its engines, which never falls.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace sluice {

// What a load takes, in work of any unit, and what of it is done.
class Progress {
 public:
  // Gets what is done of what there is, 0 to 1; one call at a time, on any thread of the load.
  using Report = std::function<void(double)>;

  // One engine's part: its signatures are read, then compiled. For one thread at a time; the progress outlives it.
  class Part {
   public:
    // How many signatures it reads, or about so many, and how long one of them takes.
    Part(Progress& whole, uint64_t signatures, uint64_t work_of_each);

    // One more signature was read.
    void Read();
    void HasRead() { Reach(read_work_); }
    // So many steps of so many.
    void Compiled(uint64_t done, uint64_t total);
    void HasCompiled() { Reach(read_work_ + compile_work_); }

   private:
    void Reach(uint64_t work);

    Progress& whole_;
    const uint64_t work_of_each_;
    const uint64_t read_work_;
    const uint64_t compile_work_;
    uint64_t read_ = 0;
    uint64_t done_ = 0;
  };

  explicit Progress(Report report) : report_(std::move(report)) {}

 private:
  void Add(uint64_t work);

  const Report report_;
  std::mutex mutex_;  // of what follows
  uint64_t total_ = 0;
  uint64_t done_ = 0;
};

}  // namespace sluice
