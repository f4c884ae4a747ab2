// SPDX-License-Identifier: GPL-2.0-only
// Takes from a thread what scanning never needs: network, programs, other processes, and files outside given folders.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::sandbox {

struct Folders {
  std::vector<std::string> writable;
  // One that does not exist is passed over.
  std::vector<std::string> readable;
};

// What the kernel took part in.
struct Confinement {
  bool seccomp;
  int landlock;  // version of its interface; 0: none
};

class SandboxError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Confines the calling thread, for good, and the threads that it starts from then on; no other one. A part that the
// kernel does not have is left out. Throws SandboxError when a part that it has fails: then the thread may be half confined.
// To be called when all files that the thread needs are open or loaded. Other threads must have started the thread pool of
// libuv before, which all share: its threads would be confined as well if this thread started them.
Confinement ConfineThread(const Folders& folders);

// What `ConfineThread` would reach: tried on a thread that ends with it.
Confinement TryConfinement();

}  // namespace sluice::sandbox
