// SPDX-License-Identifier: GPL-2.0-only
// Whether an allocation failed in a scan: libclamav goes on after some of them, and calls what it could not look at clean.
#pragma once

namespace sluice::allocations {

// From now on those of libclamav and of the libraries that it is made of are seen. Once, before the first scan.
void Watch();

// On the calling thread.
void NoteFailure();

// Of the calling thread, since it was constructed.
class Failures {
 public:
  Failures();
  bool Any() const;
};

}  // namespace sluice::allocations
