// SPDX-License-Identifier: GPL-2.0-only
// A thread-safe function of Node-API for each bell, in a table that all threads share.
#include "bell.h"

#include <cstdint>
#include <map>
#include <mutex>

namespace sluice::bell {
namespace {

// Never destroyed: threads may ring while the process exits.
struct State {
  std::mutex mutex;  // of what follows
  std::map<uint32_t, napi_threadsafe_function> bells;
  uint32_t last = 0;
};

State& TheState() {
  static auto* state = new State;
  return *state;
}

uint32_t NumberOf(const Napi::CallbackInfo& info) {
  if (!info[0].IsNumber()) throw Napi::TypeError::New(info.Env(), "number must be a number");
  return info[0].As<Napi::Number>().Uint32Value();
}

napi_threadsafe_function Take(State& state, uint32_t number) {
  std::lock_guard lock(state.mutex);
  auto node = state.bells.extract(number);
  return node.empty() ? nullptr : node.mapped();
}

// The environment ends, or the bell was closed.
void OnGone(napi_env, void* number, void*) { Take(TheState(), static_cast<uint32_t>(reinterpret_cast<uintptr_t>(number))); }

}  // namespace

Napi::Value Open(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!info[0].IsFunction()) throw Napi::TypeError::New(env, "onRing must be a function");
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  const uint32_t number = ++state.last;
  napi_threadsafe_function bell = nullptr;
  napi_status status =
      napi_create_threadsafe_function(env, info[0], nullptr, Napi::String::New(env, "bell"), 0, 1,
                                      reinterpret_cast<void*>(static_cast<uintptr_t>(number)), OnGone, nullptr, nullptr, &bell);
  if (status == napi_ok) status = napi_unref_threadsafe_function(env, bell);
  if (status != napi_ok) throw Napi::Error::New(env, "No bell is to be had");
  state.bells.emplace(number, bell);
  return Napi::Number::New(env, number);
}

Napi::Value Ring(const Napi::CallbackInfo& info) {
  State& state = TheState();
  const uint32_t number = NumberOf(info);
  // Held while it rings: a bell that is closed meanwhile would be gone.
  std::lock_guard lock(state.mutex);
  const auto bell = state.bells.find(number);
  if (bell != state.bells.end()) napi_call_threadsafe_function(bell->second, nullptr, napi_tsfn_nonblocking);
  return info.Env().Undefined();
}

Napi::Value Close(const Napi::CallbackInfo& info) {
  napi_threadsafe_function bell = Take(TheState(), NumberOf(info));
  if (bell != nullptr) napi_release_threadsafe_function(bell, napi_tsfn_abort);
  return info.Env().Undefined();
}

}  // namespace sluice::bell
