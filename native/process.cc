// SPDX-License-Identifier: GPL-2.0-only
// Things for which Node has no call: a process gives up its core dumps, and memory that it doesn't need; a thread rings a bell at another one,
// sleeps until it is woken, and says how urgent it is and on which cores it may be; connections are had without its own objects for them.
#include <fcntl.h>
#include <linux/futex.h>
#include <napi.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>

#include "arguments.h"
#include "bell.h"
#include "freed-memory.h"
#include "peers.h"

namespace {

using sluice::ArrayOf;
using sluice::NumberOf;
using sluice::SystemError;

// forbidCoreDumps(): of this process, and by the limit of those that it starts. By the limit alone a kernel that hands
// dumps to a program would still make one; by the attribute no other process of this user may read the memory either.
Napi::Value ForbidCoreDumps(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const rlimit none = {0, 0};
  if (setrlimit(RLIMIT_CORE, &none) != 0) throw SystemError(env, "setrlimit");
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) throw SystemError(env, "prctl");
  return env.Undefined();
}

// endProcess(code): at once, with all threads. An exit waits for those of Node that are in a call, which may not come back.
void EndProcess(const Napi::CallbackInfo& info) { _exit(NumberOf(info[0], "code").Int32Value()); }

// discardPages(bytes): the whole pages among them go back to the kernel and read as zeros. Only of private memory without a file behind
// it, which is what array buffers have.
Napi::Value DiscardPages(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  auto bytes = ArrayOf<uint8_t>(info[0], "bytes");
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.Data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t end = (begin + bytes.ByteLength()) / page * page;
  if (first < end && madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED) != 0) {
    throw SystemError(env, "madvise");
  }
  return env.Undefined();
}

constexpr unsigned int kNoExec = 8;  // MFD_NOEXEC_SEAL

// openSharedMemory(bytes) -> descriptor of memory, all zeros, for processes that inherit it. Sealed: one that cut it would end the others.
Napi::Value OpenSharedMemory(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const auto bytes = NumberOf(info[0], "bytes").Int64Value();
  int descriptor = memfd_create("sluice", MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExec);
  // Kernels before 6.3 don't know that flag; later ones may want it.
  if (descriptor < 0 && errno == EINVAL) descriptor = memfd_create("sluice", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) throw SystemError(env, "memfd_create");
  if (ftruncate(descriptor, bytes) != 0 ||
      fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const int code = errno;
    close(descriptor);
    throw SystemError(env, "memfd", code);
  }
  return Napi::Number::New(env, descriptor);
}

// mapSharedMemory(descriptor) -> ArrayBuffer of all of it.
Napi::Value MapSharedMemory(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const int descriptor = NumberOf(info[0], "descriptor").Int32Value();
  struct stat facts = {};
  if (fstat(descriptor, &facts) != 0) throw SystemError(env, "fstat");
  const auto bytes = static_cast<size_t>(facts.st_size);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) throw SystemError(env, "mmap");
  return Napi::ArrayBuffer::New(env, memory, bytes, [bytes](Napi::Env, void* mapped) { munmap(mapped, bytes); });
}

// releaseMemory(bytes): that of the whole array buffer, which has none from now on. V8 waits for a collection, and counts: every few megabytes of such
// memory make it collect its whole heap.
Napi::Value ReleaseMemory(const Napi::CallbackInfo& info) {
  ArrayOf<uint8_t>(info[0], "bytes").ArrayBuffer().Detach();
  return info.Env().Undefined();
}

// giveMemoryBack(), forgetProgram(): on a thread of Node's.
template <void (*kWork)()>
Napi::Value OnOtherThread(const Napi::CallbackInfo& info) {
  class Worker : public Napi::AsyncWorker {
   public:
    explicit Worker(Napi::Env env) : Napi::AsyncWorker(env) {}
    void Execute() override { kWork(); }
  };
  (new Worker(info.Env()))->Queue();
  return info.Env().Undefined();
}

// struct sched_attr of sched_setattr(2) in its first size, which not every C library declares.
struct Attributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_ns;
  uint64_t deadline_ns;
  uint64_t period_ns;
};

// schedule(isBatch, sliceMs, nicer), of the calling thread; see sched(7). A batch thread that is woken takes no core from another one that is at
// work. Otherwise it takes the core at once from a thread whose slice is longer (Linux 6.12 and later; older ones ignore the slice; 0: the kernel's
// own). `nicer` is added to its nice value. Another policy than these two (chrt) is somebody's decision, and stays.
Napi::Value Schedule(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  Attributes attributes = {};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) {
    throw SystemError(env, "sched_getattr");
  }
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return env.Undefined();
  attributes.size = sizeof attributes;
  attributes.flags = 0;
  attributes.policy = info[0].ToBoolean() ? SCHED_BATCH : SCHED_OTHER;
  attributes.runtime_ns = static_cast<uint64_t>(info[1].ToNumber().DoubleValue() * 1e6);
  attributes.nice = std::min(attributes.nice + info[2].ToNumber().Int32Value(), 19);
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) {
    throw SystemError(env, "sched_setattr");
  }
  return env.Undefined();
}

// cores() -> Int32Array of the cores that the calling thread may use.
Napi::Value Cores(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) throw SystemError(env, "sched_getaffinity");
  auto cores = Napi::Int32Array::New(env, static_cast<size_t>(CPU_COUNT(&set)));
  size_t count = 0;
  for (int core = 0; core < CPU_SETSIZE; core += 1) {
    if (CPU_ISSET(core, &set)) cores[count++] = core;
  }
  return cores;
}

// keepToCores(thread, cores): the kernel's number of a thread, 0 for the calling one. What it starts from now on may use the same ones.
Napi::Value KeepToCores(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  auto cores = ArrayOf<int32_t>(info[1], "cores");
  cpu_set_t set;
  CPU_ZERO(&set);
  for (size_t at = 0; at < cores.ElementLength(); at += 1) {
    const int32_t core = cores[at];
    if (core < 0 || core >= CPU_SETSIZE) throw Napi::RangeError::New(env, "there is no such core");
    CPU_SET(core, &set);
  }
  if (sched_setaffinity(NumberOf(info[0], "thread").Int32Value(), sizeof set, &set) != 0) {
    throw SystemError(env, "sched_setaffinity");
  }
  return env.Undefined();
}

// A word of an Int32Array, in memory that threads share.
int32_t* WordOf(const Napi::CallbackInfo& info) {
  auto words = ArrayOf<int32_t>(info[0], "words");
  const uint32_t index = NumberOf(info[1], "index").Uint32Value();
  if (index >= words.ElementLength()) throw Napi::RangeError::New(info.Env(), "there is no such word");
  return words.Data() + index;
}

// awaitWord(words, index, expected, micros) -> whether the word is another one than expected. Waits for that until the time is over. It doesn't sleep, but lets
// others have the core.
Napi::Value AwaitWord(const Napi::CallbackInfo& info) {
  const std::atomic_ref word(*WordOf(info));
  const int32_t expected = info[2].ToNumber().Int32Value();
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(info[3].ToNumber().Uint32Value());
  while (word.load() == expected && std::chrono::steady_clock::now() < end) sched_yield();
  return Napi::Boolean::New(info.Env(), word.load() != expected);
}

// sleepOnWord(words, index, expected, limitMs): until it is woken, or the time is over. Not at all where the word isn't what is expected. futex(2).
Napi::Value SleepOnWord(const Napi::CallbackInfo& info) {
  int32_t* word = WordOf(info);
  const int32_t expected = info[2].ToNumber().Int32Value();
  const uint32_t limit_ms = info[3].ToNumber().Uint32Value();
  timespec limit = {};
  limit.tv_sec = limit_ms / 1000;
  limit.tv_nsec = static_cast<long>(limit_ms % 1000) * 1000000;
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &limit, nullptr, 0);
  return info.Env().Undefined();
}

// wakeWord(words, index): the thread that sleeps on it.
Napi::Value WakeWord(const Napi::CallbackInfo& info) {
  syscall(SYS_futex, WordOf(info), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  return info.Env().Undefined();
}

Napi::Object Initialize(Napi::Env env, Napi::Object exports) {
  exports["forbidCoreDumps"] = Napi::Function::New(env, ForbidCoreDumps, "forbidCoreDumps");
  exports["endProcess"] = Napi::Function::New(env, EndProcess, "endProcess");
  exports["openBell"] = Napi::Function::New(env, sluice::bell::Open, "openBell");
  exports["attendBell"] = Napi::Function::New(env, sluice::bell::Attend, "attendBell");
  exports["ringBell"] = Napi::Function::New(env, sluice::bell::Ring, "ringBell");
  exports["closeBell"] = Napi::Function::New(env, sluice::bell::Close, "closeBell");
  exports["schedule"] = Napi::Function::New(env, Schedule, "schedule");
  exports["cores"] = Napi::Function::New(env, Cores, "cores");
  exports["keepToCores"] = Napi::Function::New(env, KeepToCores, "keepToCores");
  exports["openPoller"] = Napi::Function::New(env, sluice::peers::OpenPoller, "openPoller");
  exports["closePoller"] = Napi::Function::New(env, sluice::peers::ClosePoller, "closePoller");
  exports["readySockets"] = Napi::Function::New(env, sluice::peers::Ready, "readySockets");
  exports["watchListener"] = Napi::Function::New(env, sluice::peers::WatchListener, "watchListener");
  exports["waitingAt"] = Napi::Function::New(env, sluice::peers::Waiting, "waitingAt");
  exports["acceptPeer"] = Napi::Function::New(env, sluice::peers::Accept, "acceptPeer");
  exports["acceptDescriptor"] = Napi::Function::New(env, sluice::peers::AcceptDescriptor, "acceptDescriptor");
  exports["peerAddress"] = Napi::Function::New(env, sluice::peers::Address, "peerAddress");
  exports["receiveFrom"] = Napi::Function::New(env, sluice::peers::Receive, "receiveFrom");
  exports["sendTo"] = Napi::Function::New(env, sluice::peers::Send, "sendTo");
  exports["endSending"] = Napi::Function::New(env, sluice::peers::EndSending, "endSending");
  exports["closeSocket"] = Napi::Function::New(env, sluice::peers::CloseSocket, "closeSocket");
  exports["openSharedMemory"] = Napi::Function::New(env, OpenSharedMemory, "openSharedMemory");
  exports["mapSharedMemory"] = Napi::Function::New(env, MapSharedMemory, "mapSharedMemory");
  exports["awaitWord"] = Napi::Function::New(env, AwaitWord, "awaitWord");
  exports["sleepOnWord"] = Napi::Function::New(env, SleepOnWord, "sleepOnWord");
  exports["wakeWord"] = Napi::Function::New(env, WakeWord, "wakeWord");
  exports["releaseMemory"] = Napi::Function::New(env, ReleaseMemory, "releaseMemory");
  exports["giveMemoryBack"] = Napi::Function::New(env, OnOtherThread<sluice::GiveMemoryBack>, "giveMemoryBack");
  exports["forgetProgram"] = Napi::Function::New(env, OnOtherThread<sluice::ForgetProgram>, "forgetProgram");
  exports["discardPages"] = Napi::Function::New(env, DiscardPages, "discardPages");
  return exports;
}

}  // namespace

NODE_API_MODULE(process, Initialize)
