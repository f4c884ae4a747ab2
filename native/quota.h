// SPDX-License-Identifier: GPL-2.0-only
// The bound on what scans have in the temporary folder: looked at by a thread of its own, while any scan runs.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::quota {

// From now on this folder is the one that counts. Over the limit Over() is true. Over twice the limit, which only a parser can reach that
// writes without end and past Write(), the process aborts: nothing else stops a thread in native code.
void Watch(const std::string& directory, uint64_t limit_bytes);

bool Over();

// Over the limit for a reason that is not one scan's alone: several run, or nobody can say how much there is.
bool OverByOthers();

// Before so many bytes are written to a file there. False: the limit was passed at the last look, or twice the limit would be before the next one.
bool Write(uint64_t bytes);

// Memory that stands for files there. False: they would be over the limit.
bool Take(uint64_t bytes);
void GiveBack(uint64_t bytes);

// Several scans run.
bool IsShared();

// A scan: nobody looks at the folder when there is none.
class Scanning {
 public:
  Scanning();
  ~Scanning();
  Scanning(const Scanning&) = delete;
  Scanning& operator=(const Scanning&) = delete;
};

}  // namespace sluice::quota
