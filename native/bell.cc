// SPDX-License-Identifier: GPL-2.0-only
// Two ways to hear a bell: a thread-safe function of Node-API, which wakes the event loop and costs both sides some microseconds; and, while it is attended, a
// look at its word in each turn of the event loop, which does not sleep meanwhile.
#include "bell.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "arguments.h"
#include "libuv.h"

namespace sluice::bell {
namespace {

constexpr uint64_t kNanosPerMicro = 1000;
// What else comes waits for so long. A turn of the event loop costs about a microsecond, and Node makes an object in each.
constexpr uint64_t kLookNanos = 1500;

// Of the word. Who rings sets kRung, and wakes the event loop where it was kSilent: src/engine/threads/bell.ts.
constexpr int32_t kSilent = 0;
constexpr int32_t kRung = 1;
constexpr int32_t kAttended = 2;

// Of the thread that has opened it, as all but its ring.
struct Bell {
  Bell(Napi::Int32Array array, Napi::Function function)
      : array(Napi::Persistent(array)),
        word(*array.Data()),
        onRing(Napi::Persistent(function)),
        handle(new char[uv_handle_size(kIdleHandle)]) {}

  uv_handle_s* Handle() { return reinterpret_cast<uv_handle_s*>(handle.get()); }

  // So that the word stays.
  Napi::Reference<Napi::Int32Array> array;
  std::atomic_ref<int32_t> word;
  Napi::FunctionReference onRing;
  std::unique_ptr<char[]> handle;
  napi_threadsafe_function ring = nullptr;
  uint64_t untilNanos = 0;
  bool isAttended = false;
  bool isClosed = false;
};

// What all threads have of bells. Never destroyed: threads may ring while the process exits.
struct Rings {
  std::mutex mutex;  // of what follows
  std::map<uint32_t, napi_threadsafe_function> known;
  uint32_t last = 0;
};

Rings& TheRings() {
  static auto* rings = new Rings;
  return *rings;
}

// Of this thread, which need not wait for one that rings.
std::map<uint32_t, Bell*>& TheBells() {
  static thread_local std::map<uint32_t, Bell*> bells;
  return bells;
}

void CloseBell(uint32_t number) {
  const auto node = TheBells().extract(number);
  if (node.empty()) return;
  Rings& rings = TheRings();
  std::unique_lock lock(rings.mutex);
  rings.known.erase(number);
  lock.unlock();
  Bell* bell = node.mapped();
  bell->isClosed = true;
  napi_release_threadsafe_function(bell->ring, napi_tsfn_abort);
  // Its memory stays until the end of this turn of the event loop, which may be that of an environment that is gone by then.
  bell->onRing.Reset();
  bell->array.Reset();
  uv_close(bell->Handle(), [](uv_handle_s* handle) { delete static_cast<Bell*>(uv_handle_get_data(handle)); });
}

// It may close the bell.
void Hear(Bell* bell) {
  // First: what rings from now on is heard anew.
  bell->word.store(bell->isAttended ? kAttended : kSilent);
  Napi::Env env = bell->onRing.Env();
  Napi::HandleScope scope(env);
  try {
    bell->onRing.MakeCallback(env.Global(), {});
  } catch (const Napi::Error& error) {
    // As from any callback of the event loop.
    napi_fatal_exception(env, error.Value());
  }
}

void OnTurn(uv_handle_s* handle) {
  Bell* bell = static_cast<Bell*>(uv_handle_get_data(handle));
  const uint64_t endNanos = std::min(uv_hrtime() + kLookNanos, bell->untilNanos);
  // The thread that is waited for may be on this core.
  while (bell->word.load() != kRung && uv_hrtime() < endNanos) sched_yield();
  if (bell->word.load() == kRung) Hear(bell);
  if (bell->isClosed || uv_hrtime() < bell->untilNanos) return;
  uv_idle_stop(handle);
  bell->isAttended = false;
  // Who has rung since has woken nobody.
  if (bell->word.exchange(kSilent) == kRung) Hear(bell);
}

// Without an environment once it is closed.
void OnWoken(napi_env env, napi_value, void* bell, void*) {
  if (env != nullptr) Hear(static_cast<Bell*>(bell));
}

}  // namespace

Napi::Value Open(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  auto word = ArrayOf<int32_t>(info[0], "word");
  if (!info[1].IsFunction()) throw Napi::TypeError::New(env, "onRing must be a function");
  uv_loop_s* loop = nullptr;
  if (napi_get_uv_event_loop(env, &loop) != napi_ok) throw Napi::Error::New(env, "There is no event loop");
  auto bell = std::make_unique<Bell>(word, info[1].As<Napi::Function>());
  napi_status status = napi_create_threadsafe_function(env, nullptr, nullptr, Napi::String::New(env, "bell"), 0, 1, nullptr, nullptr,
                                                       bell.get(), OnWoken, &bell->ring);
  if (status == napi_ok) status = napi_unref_threadsafe_function(env, bell->ring);
  if (status != napi_ok) throw Napi::Error::New(env, "No bell is to be had");
  uv_idle_init(loop, bell->Handle());
  uv_handle_set_data(bell->Handle(), bell.get());
  uv_unref(bell->Handle());
  Rings& rings = TheRings();
  std::unique_lock lock(rings.mutex);
  const uint32_t number = ++rings.last;
  rings.known.emplace(number, bell->ring);
  lock.unlock();
  TheBells().emplace(number, bell.release());
  // The environment ends: no handle may be left in its loop.
  env.AddCleanupHook([number] { CloseBell(number); });
  return Napi::Number::New(env, number);
}

Napi::Value Attend(const Napi::CallbackInfo& info) {
  const auto found = TheBells().find(NumberOf(info[0], "number").Uint32Value());
  if (found == TheBells().end()) return info.Env().Undefined();
  Bell* bell = found->second;
  const uint32_t micros = info[1].ToNumber().Uint32Value();
  bell->untilNanos = micros == 0 ? 0 : uv_hrtime() + micros * kNanosPerMicro;
  if (bell->isAttended || micros == 0) return info.Env().Undefined();
  bell->isAttended = true;
  // Otherwise it has been rung, and is about to be heard.
  int32_t silent = kSilent;
  bell->word.compare_exchange_strong(silent, kAttended);
  uv_idle_start(bell->Handle(), OnTurn);
  return info.Env().Undefined();
}

Napi::Value Ring(const Napi::CallbackInfo& info) {
  Rings& rings = TheRings();
  const uint32_t number = NumberOf(info[0], "number").Uint32Value();
  // Held while it rings: a bell that is closed meanwhile would be gone.
  std::lock_guard lock(rings.mutex);
  const auto ring = rings.known.find(number);
  if (ring != rings.known.end()) napi_call_threadsafe_function(ring->second, nullptr, napi_tsfn_nonblocking);
  return info.Env().Undefined();
}

Napi::Value Close(const Napi::CallbackInfo& info) {
  CloseBell(NumberOf(info[0], "number").Uint32Value());
  return info.Env().Undefined();
}

}  // namespace sluice::bell
