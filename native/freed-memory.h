// SPDX-License-Identifier: GPL-2.0-only
// What was freed: the C library keeps it for the next scan, until it is to go back.
#pragma once

namespace sluice {

// A scan takes and frees megabytes of counters. Left to itself glibc may give them back to the kernel after every scan,
// depending on what was freed before: 600 page faults for 1 KB of content, and three times the time with a production
// database. So freed memory is kept, and the process stays at the size that its largest scans needed.
void KeepFreedMemory();

// All that is free goes to the kernel. An allocation meanwhile may wait for some milliseconds.
void GiveMemoryBack();

}  // namespace sluice
