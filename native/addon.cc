// SPDX-License-Identifier: GPL-2.0-only
// The addon's entry, run once per JavaScript environment; the engine is the process's, nothing is kept per environment.
#include <napi.h>

#include "clamav-engine.h"
#include "scanner.h"

namespace {

Napi::Object Initialize(Napi::Env env, Napi::Object exports) {
  // Here and not on a loading thread: its exit handlers must be registered while nothing else runs.
  try {
    sluice::ClamavEngine::InitializeLibrary();
  } catch (const sluice::LoadError& error) {
    throw Napi::Error::New(env, error.what());
  }
  exports["loadEngine"] = Napi::Function::New(env, sluice::LoadEngine, "loadEngine");
  exports["engineInfo"] = Napi::Function::New(env, sluice::EngineInfo, "engineInfo");
  exports["scanBuffer"] = Napi::Function::New(env, sluice::ScanBuffer, "scanBuffer");
  return exports;
}

}  // namespace

NODE_API_MODULE(sluice, Initialize)
