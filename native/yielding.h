// SPDX-License-Identifier: GPL-2.0-only
// How a thread waits for a moment without sleep: it yields its core between two looks. That is for what comes at once. Where others want the core it comes back after
// their time slices, some milliseconds later, and what it has waited for lies there meanwhile, while a thread that sleeps is woken at once. So who has waited in
// vain, or has lost time by it, sleeps for a while.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>

namespace sluice::yielding {

using Clock = std::chrono::steady_clock;

// More than a scan of some kilobytes takes, which may be on the same core.
constexpr std::chrono::microseconds kLoss{200};
// After a loss, twice as long after each that comes soon.
constexpr std::chrono::milliseconds kRest{8};
constexpr std::chrono::milliseconds kRestMost{500};
constexpr std::chrono::milliseconds kSoon{50};
// Of what was waited in vain: a twentieth of a thread's time may be.
constexpr int kRestsInVain = 20;

// Of this thread.
struct Rests {
  Clock::time_point until;
  Clock::time_point lostAt;
  Clock::duration ofLoss{};
};

inline Rests& TheRests() {
  static thread_local Rests rests;
  return rests;
}

inline bool IsResting() { return Clock::now() < TheRests().until; }

inline void RestFromLoss() {
  Rests& rests = TheRests();
  const auto now = Clock::now();
  const bool isSoon = now < rests.lostAt + rests.ofLoss + kSoon;
  rests.ofLoss = isSoon ? std::min<Clock::duration>(2 * rests.ofLoss, kRestMost) : kRest;
  rests.lostAt = now;
  rests.until = now + rests.ofLoss;
}

// Returns whether it is there.
template <typename IsThere>
bool WaitUntil(Clock::time_point end, IsThere isThere) {
  while (!isThere()) {
    if (Clock::now() >= end) return false;
    sched_yield();
    if (Clock::now() - end > kLoss) RestFromLoss();
  }
  return true;
}

// It was waited for so long, and isn't there.
inline void RestFromVainWait(Clock::duration time) {
  if (!IsResting()) TheRests().until = Clock::now() + kRestsInVain * time;
}

}  // namespace sluice::yielding
