// SPDX-License-Identifier: GPL-2.0-only
// A call from any thread to the one that serves. Node's own ways cost some twenty microseconds for each: a message, or Atomics.waitAsync.
#pragma once

#include <napi.h>

namespace sluice::bell {

// openBell(onRing): the number of a bell. Of what rings before `onRing` is called, one call is made. It keeps no process alive.
Napi::Value Open(const Napi::CallbackInfo& info);

// ringBell(number), from any thread. Of one that is closed, nothing happens.
Napi::Value Ring(const Napi::CallbackInfo& info);

// closeBell(number)
Napi::Value Close(const Napi::CallbackInfo& info);

}  // namespace sluice::bell
