// SPDX-License-Identifier: GPL-2.0-only
// What the addon is made of, apart from its entry: the addon of the tests has the same parts and another entry.
#pragma once

#include <napi.h>

namespace sluice {

// Once per JavaScript environment; the engine is the process's, nothing is kept per environment.
Napi::Object FillExports(Napi::Env env, Napi::Object exports);

}  // namespace sluice
