// SPDX-License-Identifier: GPL-2.0-only
// What every JavaScript environment that loads the addon is given.
#include "addon.h"

#include "clamav-engine.h"
#include "freed-memory.h"
#include "scanner.h"

namespace sluice {

Napi::Object FillExports(Napi::Env env, Napi::Object exports) {
  KeepFreedMemory();
  // Here and not on a loading thread: its exit handlers must be registered while nothing else runs.
  try {
    ClamavEngine::InitializeLibrary();
  } catch (const LoadError& error) {
    throw Napi::Error::New(env, error.what());
  }
  exports["loadEngine"] = Napi::Function::New(env, LoadEngine, "loadEngine");
  exports["serveEngine"] = Napi::Function::New(env, ServeEngine, "serveEngine");
  exports["discardEngine"] = Napi::Function::New(env, DiscardEngine, "discardEngine");
  exports["engineInfo"] = Napi::Function::New(env, EngineInfo, "engineInfo");
  exports["gateStatistics"] = Napi::Function::New(env, GateStatisticsOf, "gateStatistics");
  exports["countWindows"] = Napi::Function::New(env, CountWindows, "countWindows");
  exports["windowCounts"] = Napi::Function::New(env, WindowCountsOf, "windowCounts");
  exports["confineThread"] = Napi::Function::New(env, ConfineThread, "confineThread");
  exports["tryConfinement"] = Napi::Function::New(env, TryConfinement, "tryConfinement");
  exports["scanBuffer"] = Napi::Function::New(env, ScanBuffer, "scanBuffer");
  exports["scanPlain"] = Napi::Function::New(env, ScanPlain, "scanPlain");
  exports["typeName"] = Napi::Function::New(env, TypeName, "typeName");
  return exports;
}

}  // namespace sluice
