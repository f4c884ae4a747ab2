// SPDX-License-Identifier: GPL-2.0-only
// Bytes and the open files that come with them by a UNIX socket (SCM_RIGHTS): Node reads the first and drops the second.
#pragma once

#include <napi.h>

namespace sluice::receiver {

// openReceiver(descriptor, onBytes) -> number. `onBytes(bytes, descriptors, end)`: called in the event loop for all that was received at once.
// `bytes` is a Buffer of its own, empty at the end; `descriptors` are the caller's to close; `end` is null, 'end' or 'error', and nothing follows
// then. It is stopped at first. The descriptor stays the caller's.
Napi::Value Open(const Napi::CallbackInfo& info);
// startReceiver(number), stopReceiver(number): what comes meanwhile waits in the kernel.
Napi::Value Start(const Napi::CallbackInfo& info);
Napi::Value Stop(const Napi::CallbackInfo& info);
// closeReceiver(number). `onBytes` isn't called any more.
Napi::Value Close(const Napi::CallbackInfo& info);

}  // namespace sluice::receiver
