// SPDX-License-Identifier: GPL-2.0-only
// Adds up the blocks of all files below the folder, again and again; no file system has to know of quotas for that.
#include "quota.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

namespace sluice::quota {
namespace {

using Clock = std::chrono::steady_clock;

// A tmpfs takes some 1 GB a second from one thread: so much may come on top of the limit before it is noticed.
constexpr std::chrono::milliseconds kInterval{20};
// Looking at ten thousand files takes milliseconds; no more than a tenth of a core goes into it.
constexpr int kRest = 9;
constexpr int kDeepest = 64;
constexpr uint64_t kBlock = 512;
// Files take whole blocks, and more bytes than were written to them.
constexpr uint64_t kMargin = 16 << 20;

// Never destroyed: the thread outlives the destructors of the process.
struct State {
  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  std::string directory;
  uint64_t limit_bytes = 0;
  int scans = 0;
  bool watched = false;

  std::atomic<bool> over = false;
  std::atomic<bool> unknown = false;
  // Of `limit_bytes`, for who doesn't wait for the mutex.
  std::atomic<uint64_t> limit = 0;
  std::atomic<uint64_t> held = 0;
  // What the last look saw, and what was written since it began.
  std::atomic<uint64_t> seen = 0;
  std::atomic<uint64_t> written = 0;
};

State& TheState() {
  static auto* state = new State;
  return *state;
}

// Nobody can say how much there is: no descriptor or no memory was left to look with, or the folder itself can't be looked into.
constexpr uint64_t kUnknown = UINT64_MAX;

// Of a folder that could not be opened. What vanishes meanwhile counts nothing.
uint64_t BytesUnseen(int error, int depth) {
  if (error == EMFILE || error == ENFILE || error == ENOMEM) return kUnknown;
  return depth == 0 && error != ENOENT ? kUnknown : 0;
}

uint64_t BytesBelow(int parent, const char* name, int depth) {
  const int descriptor = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return BytesUnseen(errno, depth);
  DIR* folder = fdopendir(descriptor);
  if (folder == nullptr) {
    const int error = errno;
    close(descriptor);
    return BytesUnseen(error, depth);
  }
  uint64_t bytes = 0;
  while (const dirent* entry = readdir(folder)) {
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    struct stat facts;
    if (fstatat(descriptor, entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
    bytes += static_cast<uint64_t>(facts.st_blocks) * kBlock;
    if (!S_ISDIR(facts.st_mode) || depth == kDeepest) continue;
    const uint64_t below = BytesBelow(descriptor, entry->d_name, depth + 1);
    if (below == kUnknown) {
      bytes = kUnknown;
      break;
    }
    bytes += below;
  }
  closedir(folder);
  return bytes;
}

[[noreturn]] void Run() {
  State& state = TheState();
  std::unique_lock lock(state.mutex);
  for (;;) {
    state.changed.wait(lock, [&state] { return state.scans > 0 || state.over.load(); });
    const std::string directory = state.directory;
    const uint64_t limit = state.limit_bytes;
    lock.unlock();
    const auto started = Clock::now();
    const uint64_t written = state.written.load();
    const uint64_t below = BytesBelow(AT_FDCWD, directory.c_str(), 0);
    const uint64_t bytes = below == kUnknown ? kUnknown : below + state.held.load();
    // What isn't known is over the limit: nothing is called clean meanwhile.
    state.unknown.store(bytes == kUnknown);
    state.over.store(bytes == kUnknown || bytes > limit);
    state.written.fetch_sub(written);
    if (bytes != kUnknown) state.seen.store(bytes);
    if (below != kUnknown && below > 2 * limit + kMargin) {
      std::fprintf(stderr, "A scan fills the temporary folder without end: %llu bytes. The process aborts.\n",
                   static_cast<unsigned long long>(below));
      std::abort();
    }
    std::this_thread::sleep_for(std::max<Clock::duration>(kInterval, (Clock::now() - started) * kRest));
    lock.lock();
  }
}

}  // namespace

void Watch(const std::string& directory, uint64_t limit_bytes) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.directory = directory;
  state.limit_bytes = limit_bytes;
  state.limit.store(limit_bytes);
  if (state.watched) return;
  // Not by a scan thread: what it started would be confined as it is. Throws std::system_error where no thread is to be had.
  std::thread(Run).detach();
  state.watched = true;
}

bool Over() { return TheState().over.load(std::memory_order_relaxed); }

bool OverByOthers() {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  return state.over.load() && (state.scans > 1 || state.unknown.load());
}

bool Write(uint64_t bytes) {
  State& state = TheState();
  if (state.over.load(std::memory_order_relaxed)) return false;
  const uint64_t written = state.written.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  return state.seen.load(std::memory_order_relaxed) + written <= 2 * state.limit.load(std::memory_order_relaxed);
}

bool Take(uint64_t bytes) {
  State& state = TheState();
  if (state.held.fetch_add(bytes) + bytes <= state.limit.load()) return true;
  state.held.fetch_sub(bytes);
  return false;
}

void GiveBack(uint64_t bytes) { TheState().held.fetch_sub(bytes); }

bool IsShared() {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  return state.scans > 1;
}

Scanning::Scanning() {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  if (state.scans++ == 0) state.changed.notify_one();
}

Scanning::~Scanning() {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.scans--;
}

}  // namespace sluice::quota
