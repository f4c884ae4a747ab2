// SPDX-License-Identifier: GPL-2.0-only
// The part of the sandbox that allows a thread a list of system calls (Linux 3.17 and later, seccomp(2)).
#pragma once

#include "sandbox.h"

namespace sluice::sandbox {

// False where the kernel has no filters; throws SandboxError. From then on no call of Landlock is possible.
bool FilterCalls();

}  // namespace sluice::sandbox
