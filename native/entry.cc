// SPDX-License-Identifier: GPL-2.0-only
// The entry of the shipped addon.
#include "addon.h"

namespace {

Napi::Object Initialize(Napi::Env env, Napi::Object exports) { return sluice::FillExports(env, exports); }

}  // namespace

NODE_API_MODULE(sluice, Initialize)
