// SPDX-License-Identifier: GPL-2.0-only
// Holds the current engine behind a mutex that is taken for the length of a pointer copy.
#include "engine.h"

#include <chrono>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "exit-gate.h"
#include "freed-memory.h"

namespace sluice::engine {
namespace {

constexpr std::chrono::milliseconds kRetireCheck{20};

// Never destroyed: the process may exit while threads still scan, and freeing a large engine takes seconds.
struct State {
  std::mutex mutex;  // of what follows
  Reference current;
  std::map<uint64_t, Reference> prepared;

  std::mutex build_turn;
  uint64_t last_epoch = 0;
};

State& TheState() {
  static auto* state = new State;
  return *state;
}

// Frees an engine that nobody else holds. What that leaves free, or loading, goes back to the system: it is far more than scans keep for themselves, and the
// next engine is seldom put where this one was.
void Free(Reference engine) {
  engine.reset();
  GiveMemoryBack();
}

// Waits for the last scan of an engine that no longer serves, and frees it; false, and nothing is freed, after the deadline.
bool Retire(Reference& retired, std::chrono::steady_clock::time_point deadline) {
  while (retired.use_count() > 1) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    exit_gate::PassOrPark();
    std::this_thread::sleep_for(kRetireCheck);
  }
  Free(std::move(retired));
  return true;
}

// On a thread of its own: freeing takes too long for a scan thread, let alone for the one that serves.
void RetireLater(Reference retired) {
  if (!retired) return;
  try {
    std::thread([retired = std::move(retired)]() mutable {
      exit_gate::Passage passage;
      Retire(retired, std::chrono::steady_clock::time_point::max());
    }).detach();
  } catch (const std::system_error&) {
    // No thread to be had: what still scans with it frees it in the end.
  }
}

Reference TakePrepared(State& state, uint64_t epoch) {
  auto node = state.prepared.extract(epoch);
  return node.empty() ? nullptr : std::move(node.mapped());
}

}  // namespace

Reference Current() {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  return state.current;
}

EngineFacts Prepare(const LoadRequest& request, const LoadObserver& observer) {
  State& state = TheState();
  std::lock_guard turn(state.build_turn);
  exit_gate::Passage passage;
  Reference fresh = EngineSet::Build(request, observer, ++state.last_epoch);
  fresh->Prove(request);
  GiveMemoryBack();
  std::lock_guard lock(state.mutex);
  state.prepared.emplace(fresh->facts().epoch, fresh);
  return fresh->facts();
}

bool Serve(uint64_t epoch) {
  State& state = TheState();
  Reference retired;
  bool served;
  {
    std::lock_guard lock(state.mutex);
    retired = TakePrepared(state, epoch);
    served = retired && (!state.current || state.current->facts().epoch < epoch);
    if (served) std::swap(state.current, retired);
  }
  RetireLater(std::move(retired));
  return served;
}

void Discard(uint64_t epoch) {
  State& state = TheState();
  Reference prepared;
  {
    std::lock_guard lock(state.mutex);
    prepared = TakePrepared(state, epoch);
  }
  RetireLater(std::move(prepared));
}

bool Clear(std::chrono::milliseconds wait) {
  State& state = TheState();
  Reference current;
  {
    std::lock_guard lock(state.mutex);
    current = std::exchange(state.current, nullptr);
  }
  return !current || Retire(current, std::chrono::steady_clock::now() + wait);
}

}  // namespace sluice::engine
