// SPDX-License-Identifier: GPL-2.0-only
// What a process gives up for good, and Node has no call for: to leave its memory behind in a file when it dies.
#include <napi.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>

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

Napi::Object Initialize(Napi::Env env, Napi::Object exports) {
  exports["forbidCoreDumps"] = Napi::Function::New(env, ForbidCoreDumps, "forbidCoreDumps");
  return exports;
}

}  // namespace

NODE_API_MODULE(process, Initialize)
