// SPDX-License-Identifier: GPL-2.0-only
// The functions that JavaScript calls.
#pragma once

#include <napi.h>

namespace sluice {

Napi::Value LoadEngine(const Napi::CallbackInfo& info);
Napi::Value ServeEngine(const Napi::CallbackInfo& info);
Napi::Value DiscardEngine(const Napi::CallbackInfo& info);
Napi::Value EngineInfo(const Napi::CallbackInfo& info);
Napi::Value GateStatisticsOf(const Napi::CallbackInfo& info);
Napi::Value CountWindows(const Napi::CallbackInfo& info);
Napi::Value WindowCountsOf(const Napi::CallbackInfo& info);
Napi::Value ConfineThread(const Napi::CallbackInfo& info);
Napi::Value TryConfinement(const Napi::CallbackInfo& info);
Napi::Value ScanBuffer(const Napi::CallbackInfo& info);
Napi::Value ScanPlain(const Napi::CallbackInfo& info);
Napi::Value TypeName(const Napi::CallbackInfo& info);

}  // namespace sluice
