// SPDX-License-Identifier: GPL-2.0-only
// A call from any thread to the one that serves. Node's own ways cost some twenty microseconds for each: a message, or Atomics.waitAsync.
#pragma once

#include <napi.h>

namespace sluice::bell {

// openBell(word, onRing): the number of a bell, whose word threads share. Of what rings before `onRing` is called, one call is made. It keeps no process alive.
Napi::Value Open(const Napi::CallbackInfo& info);

// attendBell(number, micros), from the thread that has opened it: for so long from now its event loop doesn't sleep, and who rings need not wake it; 0: no longer than this turn.
Napi::Value Attend(const Napi::CallbackInfo& info);

// ringBell(number), from any thread that has found the word silent. Of a bell that is closed, nothing happens.
Napi::Value Ring(const Napi::CallbackInfo& info);

// closeBell(number)
Napi::Value Close(const Napi::CallbackInfo& info);

}  // namespace sluice::bell
