// SPDX-License-Identifier: GPL-2.0-only
// The exit gate: an exit handler that waits, for a bounded time, until every loading thread has finished or is parked.
#include "exit-gate.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

namespace sluice::exit_gate {
namespace {

// Steps of a load are microseconds apart; only sorting a very large database takes longer without one.
constexpr std::chrono::seconds kLongestWait{5};

struct Gate {
  std::atomic<bool> exiting = false;
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;
};

// Never destroyed: parked threads outlive the destructors of the process.
Gate& TheGate() {
  static auto* gate = new Gate;
  return *gate;
}

void CloseAtExit() {
  Gate& gate = TheGate();
  std::unique_lock lock(gate.mutex);
  gate.exiting = true;
  gate.changed.wait_for(lock, kLongestWait, [&gate] { return gate.inside == 0; });
}

}  // namespace

Passage::Passage() {
  Gate& gate = TheGate();
  // Registered late, so that it runs before the handlers of the libraries that are loaded already.
  static std::once_flag once;
  std::call_once(once, [] { std::atexit(CloseAtExit); });
  {
    std::lock_guard lock(gate.mutex);
    gate.inside++;
  }
  PassOrPark();
}

Passage::~Passage() {
  Gate& gate = TheGate();
  {
    std::lock_guard lock(gate.mutex);
    gate.inside--;
  }
  gate.changed.notify_all();
}

void PassOrPark() {
  Gate& gate = TheGate();
  if (!gate.exiting.load(std::memory_order_relaxed)) return;
  {
    std::lock_guard lock(gate.mutex);
    gate.inside--;
  }
  gate.changed.notify_all();
  for (;;) pause();
}

}  // namespace sluice::exit_gate
