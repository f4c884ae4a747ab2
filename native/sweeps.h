// SPDX-License-Identifier: GPL-2.0-only
// The HTTP library's sweep over its connections, which ends those that have been silent for too long.
#pragma once

#include <napi.h>

namespace sluice {

// guardSweeps() -> whether there is a sweep: from now on it waits until what has arrived is read.
Napi::Value GuardSweeps(const Napi::CallbackInfo& info);

}  // namespace sluice
