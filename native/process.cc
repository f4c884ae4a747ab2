// SPDX-License-Identifier: GPL-2.0-only
// Things for which Node has no call: a process gives up its core dumps, and pages that it doesn't need; a thread rings a bell at another one,
// and says how urgent it is; open files come by a UNIX socket.
#include <napi.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "bell.h"
#include "receiver.h"

namespace {

// forbidCoreDumps(): of this process, and by the limit of those that it starts. By the limit alone a kernel that hands
// dumps to a program would still make one; by the attribute no other process of this user may read the memory either.
Napi::Value ForbidCoreDumps(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const rlimit none = {0, 0};
  if (setrlimit(RLIMIT_CORE, &none) != 0) throw Napi::Error::New(env, std::string("setrlimit: ") + std::strerror(errno));
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) throw Napi::Error::New(env, std::string("prctl: ") + std::strerror(errno));
  return env.Undefined();
}

// discardPages(bytes): the whole pages among them go back to the kernel and read as zeros. Only of private memory without a file behind
// it, which is what array buffers have.
Napi::Value DiscardPages(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!info[0].IsTypedArray() || info[0].As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array) {
    throw Napi::TypeError::New(env, "bytes must be a Uint8Array");
  }
  auto bytes = info[0].As<Napi::Uint8Array>();
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.Data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t end = (begin + bytes.ByteLength()) / page * page;
  if (first < end && madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED) != 0) {
    throw Napi::Error::New(env, std::string("madvise: ") + std::strerror(errno));
  }
  return env.Undefined();
}

// sched(7), of the calling thread. Another policy than these two (chrt) is somebody's decision, and stays.
void Schedule(Napi::Env env, int policy) {
  const int present = sched_getscheduler(0);
  if (present != SCHED_OTHER && present != SCHED_BATCH) return;
  const sched_param none = {};
  if (sched_setscheduler(0, policy, &none) != 0) {
    throw Napi::Error::New(env, std::string("sched_setscheduler: ") + std::strerror(errno));
  }
}

// waitsOnWaking(): when the calling thread is woken it takes no core from another one that is at work. So do the threads and processes that it
// starts. Its share of the cores stays.
Napi::Value WaitsOnWaking(const Napi::CallbackInfo& info) {
  Schedule(info.Env(), SCHED_BATCH);
  return info.Env().Undefined();
}

// comesFirst(): the calling thread is an ordinary one.
Napi::Value ComesFirst(const Napi::CallbackInfo& info) {
  Schedule(info.Env(), SCHED_OTHER);
  return info.Env().Undefined();
}

Napi::Object Initialize(Napi::Env env, Napi::Object exports) {
  exports["forbidCoreDumps"] = Napi::Function::New(env, ForbidCoreDumps, "forbidCoreDumps");
  exports["openBell"] = Napi::Function::New(env, sluice::bell::Open, "openBell");
  exports["ringBell"] = Napi::Function::New(env, sluice::bell::Ring, "ringBell");
  exports["closeBell"] = Napi::Function::New(env, sluice::bell::Close, "closeBell");
  exports["waitsOnWaking"] = Napi::Function::New(env, WaitsOnWaking, "waitsOnWaking");
  exports["comesFirst"] = Napi::Function::New(env, ComesFirst, "comesFirst");
  exports["openReceiver"] = Napi::Function::New(env, sluice::receiver::Open, "openReceiver");
  exports["startReceiver"] = Napi::Function::New(env, sluice::receiver::Start, "startReceiver");
  exports["stopReceiver"] = Napi::Function::New(env, sluice::receiver::Stop, "stopReceiver");
  exports["closeReceiver"] = Napi::Function::New(env, sluice::receiver::Close, "closeReceiver");
  exports["discardPages"] = Napi::Function::New(env, DiscardPages, "discardPages");
  return exports;
}

}  // namespace

NODE_API_MODULE(process, Initialize)
