// SPDX-License-Identifier: GPL-2.0-only
// The entry of the tests' addon: everything of the shipped one, but content may order a fault instead of its scan.
#include "../addon.h"
#include "../engine.h"
#include "../scanner.h"
#include "fault.h"

namespace {

Napi::Object AnswerOf(Napi::Env env, const sluice::faults::Outcome& outcome, uint64_t epoch) {
  Napi::Array alerts = Napi::Array::New(env, outcome.name.empty() ? 0 : 1);
  if (!outcome.name.empty()) alerts[0u] = outcome.name;
  Napi::Object answer = Napi::Object::New(env);
  answer["code"] = outcome.code;
  answer["codeText"] = outcome.code_text;
  answer["virusName"] = outcome.name.empty() ? static_cast<napi_value>(env.Null())
                                             : static_cast<napi_value>(Napi::String::New(env, outcome.name));
  answer["alerts"] = alerts;
  answer["epoch"] = static_cast<double>(epoch);
  return answer;
}

template <Napi::Value (*kScan)(const Napi::CallbackInfo&)>
Napi::Value FaultOr(const Napi::CallbackInfo& info) {
  if (info[0].IsTypedArray() && info[0].As<Napi::TypedArray>().TypedArrayType() == napi_uint8_array) {
    auto bytes = info[0].As<Napi::Uint8Array>();
    const auto* start = reinterpret_cast<const char*>(bytes.Data());
    // Held like a scan holds it: an engine with a hung scan is never freed.
    sluice::engine::Reference engine = sluice::engine::Current();
    auto order = sluice::faults::OrderIn({start, bytes.ByteLength()});
    if (engine && order) {
      auto outcome = sluice::faults::Carry(*order, engine->temporary_directory());
      if (outcome) return AnswerOf(info.Env(), *outcome, engine->facts().epoch);
    }
  }
  return kScan(info);
}

Napi::Object Initialize(Napi::Env env, Napi::Object exports) {
  sluice::FillExports(env, exports);
  exports["scanBuffer"] = Napi::Function::New(env, FaultOr<sluice::ScanBuffer>, "scanBuffer");
  exports["scanPlain"] = Napi::Function::New(env, FaultOr<sluice::ScanPlain>, "scanPlain");
  return exports;
}

}  // namespace

NODE_API_MODULE(sluice_faults, Initialize)
