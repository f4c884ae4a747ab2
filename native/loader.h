// SPDX-License-Identifier: GPL-2.0-only
// Loads an engine on a thread of its own and tells the JavaScript thread about it.
#pragma once

#include <napi.h>

#include "report.h"

namespace sluice {

// A promise of the facts of an engine that is built and proven. It serves when it is asked to. `on_progress` may be empty; its last call comes before the promise settles.
Napi::Value StartLoading(Napi::Env env, LoadRequest request, Napi::Function on_progress);

Napi::Object FactsToObject(Napi::Env env, const EngineFacts& facts);

}  // namespace sluice
