// SPDX-License-Identifier: GPL-2.0-only
// Work of a load that several threads share for as long as it takes.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "exit-gate.h"

namespace sluice {

// Calls it with each number below `count`, in no order, on two threads where there are two cores: with more, a load beside scans takes what a container may
// use of the cores of its machine. Throws what was thrown for the lowest number.
template <typename Call>
void ForEachAtOnce(size_t count, const Call& call) {
  std::atomic<size_t> next = 0;
  std::vector<std::exception_ptr> thrown(count);
  const auto work = [&] {
    for (size_t number = next++; number < count; number = next++) {
      try {
        call(number);
      } catch (...) {
        thrown[number] = std::current_exception();
      }
    }
  };
  {
    std::atomic<size_t> busy = 0;
    const auto help = [&] {
      {
        const exit_gate::Passage passage;
        work();
      }
      busy--;
    };
    std::vector<std::jthread> others;
    constexpr size_t kThreadsMost = 2;
    const size_t wanted = std::min<size_t>({kThreadsMost, std::thread::hardware_concurrency(), count});
    try {
      while (others.size() + 1 < wanted) {
        busy++;
        others.emplace_back(help);
      }
    } catch (const std::system_error&) {
      // There may be no more threads: these do all of it.
      busy--;
    }
    work();
    // Others don't end once the process exits, and neither may this one.
    while (busy > 0) {
      exit_gate::PassOrPark();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

}  // namespace sluice
