// SPDX-License-Identifier: GPL-2.0-only
// Who hears what libclamav logs: the load or the scan that runs on the same thread, or nobody; never stderr.
#pragma once

#include <string>
#include <vector>

namespace sluice {

struct Listener {
  std::vector<std::string> messages;  // the last of them
  // A file or folder could not be made or written.
  bool storage_failed = false;
  // That was because the process, or the machine, had no file descriptor left at that moment.
  bool lacked_descriptors = false;
};

// Hears for as long as it lives, on the thread that made it.
class Listening {
 public:
  explicit Listening(Listener& listener);
  ~Listening();
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
};

void Hear(const char* message) noexcept;

}  // namespace sluice
