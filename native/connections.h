// SPDX-License-Identifier: GPL-2.0-only
// The connections of this process, as the kernel counts them.
#pragma once

#include <napi.h>

namespace sluice {

Napi::Value ListConnections(const Napi::CallbackInfo& info);
Napi::Value HangUp(const Napi::CallbackInfo& info);

}  // namespace sluice
