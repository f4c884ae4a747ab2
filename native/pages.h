// SPDX-License-Identifier: GPL-2.0-only
// Pages that are seldom looked at: once they are complete, a file without a name has them, and they take memory only while somebody looks. The kernel reads them
// again where they are needed, and takes them back where memory is short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace sluice {

class Pages {
 public:
  // Notes what libclamav maps, without a file, on the calling thread. One at a time for a thread.
  class Noting {
   public:
    explicit Noting(Pages& pages);
    ~Noting();
    Noting(const Noting&) = delete;
    Noting& operator=(const Noting&) = delete;
  };

  // Null: nothing is noted on the calling thread.
  static Pages* OfThread();

  void Add(void* start, size_t size);
  // It is not mapped any more.
  void Forget(void* start, size_t size);

  // Into a file in the folder, at the same addresses. Nobody may write to them meanwhile. What can't be put there stays in memory: the folder is in memory itself, or the disk is full.
  void MoveToFile(const std::string& folder);

  // What is in the file takes no memory of the process until somebody looks again. Others may look meanwhile.
  void Leave() const;

 private:
  // Ends by beginnings.
  std::map<uintptr_t, uintptr_t> pieces_;
  bool are_in_file_ = false;
};

}  // namespace sluice
