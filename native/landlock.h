// SPDX-License-Identifier: GPL-2.0-only
// The part of the sandbox that keeps a thread to its folders (Linux 5.13 and later, Documentation/userspace-api/landlock.rst).
#pragma once

#include "sandbox.h"

namespace sluice::sandbox {

// Returns the version of the kernel's Landlock, or 0 where there is none; throws SandboxError.
int RestrictFiles(const Folders& folders);

}  // namespace sluice::sandbox
