// SPDX-License-Identifier: GPL-2.0-only
// Holds the current engine behind a mutex that is taken for the length of a pointer copy.
#include "engine.h"

#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "exit-gate.h"

namespace sluice::engine {
namespace {

constexpr std::chrono::milliseconds kRetireCheck{20};

// Never destroyed: the process may exit while threads still scan, and freeing a large engine takes seconds.
struct State {
  std::mutex current_mutex;
  Reference current;
  std::mutex build_turn;
};

State& TheState() {
  static auto* state = new State;
  return *state;
}

}  // namespace

Reference Current() {
  State& state = TheState();
  std::lock_guard lock(state.current_mutex);
  return state.current;
}

Reference Reload(const LoadRequest& request, const LoadObserver& observer, Reference& retired) {
  State& state = TheState();
  std::lock_guard turn(state.build_turn);
  exit_gate::Passage passage;
  Reference fresh = ClamavEngine::Build(request, observer);
  std::lock_guard lock(state.current_mutex);
  retired = std::exchange(state.current, fresh);
  return fresh;
}

void Retire(Reference retired) {
  exit_gate::Passage passage;
  while (retired.use_count() > 1) {
    exit_gate::PassOrPark();
    std::this_thread::sleep_for(kRetireCheck);
  }
}

}  // namespace sluice::engine
