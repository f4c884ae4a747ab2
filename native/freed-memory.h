// SPDX-License-Identifier: GPL-2.0-only
// What a process needs no more: what was freed, which the C library keeps for the next scan until it is to go back, and what its start has looked at of its program.
#pragma once

namespace sluice {

// A scan takes and frees megabytes of counters. Left to itself glibc may give them back to the kernel after every scan,
// depending on what was freed before: 600 page faults for 1 KB of content, and three times the time with a production
// database. So freed memory is kept, but for pieces of 1 MB and more, which are few, and whose scans take long beside
// their page faults.
void KeepFreedMemory();

// All that is free goes to the kernel. An allocation meanwhile may wait for some milliseconds.
void GiveMemoryBack();

// Of the program and its libraries what is looked at from now on is in the memory of the process, and not what was before. The kernel has their files.
void ForgetProgram();

}  // namespace sluice
