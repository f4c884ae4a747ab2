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
// Times of what was lost: a hundredth of a thread's time may be, and a twentieth in vain.
constexpr int kRestsOfLoss = 100;
constexpr int kRestsInVain = 20;
constexpr std::chrono::milliseconds kRestMost{500};

// Of this thread.
inline Clock::time_point& RestsUntil() {
  static thread_local Clock::time_point until;
  return until;
}

inline bool IsResting() { return Clock::now() < RestsUntil(); }

inline void Rest(Clock::duration time) { RestsUntil() = Clock::now() + std::min<Clock::duration>(time, kRestMost); }

// Returns whether it is there.
template <typename IsThere>
bool WaitUntil(Clock::time_point end, IsThere isThere) {
  while (!isThere()) {
    if (Clock::now() >= end) return false;
    sched_yield();
    const auto lost = Clock::now() - end;
    if (lost > kLoss) Rest(kRestsOfLoss * lost);
  }
  return true;
}

// It was waited for so long, and isn't there.
inline void WasInVain(Clock::duration time) {
  if (!IsResting()) Rest(kRestsInVain * time);
}

}  // namespace sluice::yielding
