// SPDX-License-Identifier: GPL-2.0-only
// The faults: crashes, hangs, lost memory and error codes.
#include "fault.h"

#include <clamav.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "../quota.h"
#include "probe.h"

namespace sluice::faults {
namespace {

constexpr std::string_view kMarker = "SLUICE-FAULT ";
constexpr size_t kLongestLine = 4096;

// Volatile, so that the compiler neither sees the null nor the recursion's end.
volatile int* volatile nowhere = nullptr;
volatile size_t deepest = SIZE_MAX;

size_t Overflow(size_t depth) {
  volatile char frame[4096];
  frame[depth % sizeof frame] = 1;
  return depth < deepest ? Overflow(depth + 1) + static_cast<size_t>(frame[0]) : depth;
}

void Crash(const std::string& how) {
  if (how == "segv") *nowhere = 1;
  if (how == "abort") std::abort();
  if (how == "stack") Overflow(0);
  if (how == "throw") std::thread([] { throw std::runtime_error("on purpose"); }).join();
  if (how == "exit") _exit(99);
}

void Hang(const std::string& how, std::chrono::duration<double> how_long) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < how_long) {
    if (how == "sleep") std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// A scan thread may not open the file, but look whether it is there.
void Await(const std::string& how, const std::string& path) {
  while (access(path.c_str(), F_OK) != 0) {
    if (how == "sleep") std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Written to, so that it takes memory and not only addresses.
void Leak(size_t megabytes) {
  void* lost = std::malloc(megabytes << 20);
  if (lost != nullptr) std::memset(lost, 0x5a, megabytes << 20);
  static std::atomic<void*> last;
  last = lost;
}

// Written in parts, as a parser would, with a wait at the end, so that a test that looks at the folder sees it.
void Fill(const std::string& directory, size_t megabytes) {
  quota::Scanning scanning;
  const std::string part(1 << 20, 'x');
  std::ofstream file(directory + "/filled", std::ios::app);
  for (size_t i = 0; i < megabytes; i++) file << part << std::flush;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

// All but so many descriptors are gone from now on. Goes on once the folder is known to be over its bound, or nobody notices for two seconds.
void Starve(size_t left) {
  quota::Scanning scanning;
  constexpr rlim_t kFew = 256;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min(limit.rlim_cur, kFew);
  setrlimit(RLIMIT_NOFILE, &limit);
  std::vector<int> taken;
  for (int descriptor; (descriptor = dup(STDERR_FILENO)) >= 0;) taken.push_back(descriptor);
  for (; left > 0 && !taken.empty(); left--, taken.pop_back()) close(taken.back());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (!quota::Over() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

// Takes addresses, no memory.
Outcome Map(size_t megabytes) {
  void* mapped = mmap(nullptr, megabytes << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return {CL_VIRUS, cl_strerror(CL_VIRUS), mapped == MAP_FAILED ? "Fault.map." + ErrorName(errno) : "Fault.map.OK"};
}

Outcome Fail(int code) { return {code, cl_strerror(static_cast<cl_error_t>(code)), ""}; }

std::string WordOf(const Order& order, size_t at, const char* otherwise) {
  return at < order.size() ? order[at] : otherwise;
}

}  // namespace

std::optional<Order> OrderIn(std::string_view content) {
  if (!content.starts_with(kMarker)) return std::nullopt;
  content.remove_prefix(kMarker.size());
  std::istringstream line(std::string(content.substr(0, std::min(content.find('\n'), kLongestLine))));
  Order order;
  for (std::string word; line >> word;) order.push_back(word);
  return order;
}

//  crash segv | abort | stack | throw | exit   the process ends at once
//  hang busy | sleep [SECONDS]                 without SECONDS for ever; with them the scan goes on afterwards
//  await busy | sleep PATH                     the scan goes on when there is such a file
//  leak MEGABYTES                              the scan goes on, the memory is lost
//  map MEGABYTES                               takes address space: Fault.map.OK or Fault.map.ENOMEM
//  fill MEGABYTES                              a file of this size stays in the temporary folder, the scan goes on
//  starve LEFT                                 so many descriptors are left from now on, the scan goes on
//  fail CODE                                   the scan's answer is this cl_error_t
//  name NAME                                   the scan's answer is this virus
//  probe WHAT [PATH]                           tries what a scan thread must not (probe.cc): Probe.WHAT.OK or Probe.WHAT.EPERM
std::optional<Outcome> Carry(const Order& order, const std::string& temporary_directory) {
  const std::string what = WordOf(order, 0, "");
  const std::string how = WordOf(order, 1, "");
  if (what == "crash") Crash(how);
  if (what == "hang") Hang(how, std::chrono::duration<double>(std::atof(WordOf(order, 2, "1e9").c_str())));
  if (what == "await") Await(how, WordOf(order, 2, "/"));
  if (what == "leak") Leak(std::strtoul(how.c_str(), nullptr, 10));
  if (what == "fill") Fill(temporary_directory, std::strtoul(how.c_str(), nullptr, 10));
  if (what == "starve") Starve(std::strtoul(how.c_str(), nullptr, 10));
  if (what == "hang" || what == "await" || what == "leak" || what == "fill" || what == "starve") return std::nullopt;
  if (what == "map") return Map(std::strtoul(how.c_str(), nullptr, 10));
  if (what == "fail") return Fail(std::atoi(how.c_str()));
  if (what == "name") return Outcome{CL_VIRUS, cl_strerror(CL_VIRUS), how};
  if (what == "probe") return Outcome{CL_VIRUS, cl_strerror(CL_VIRUS), "Probe." + how + "." + Probe(how, WordOf(order, 2, ""))};
  return Outcome{CL_VIRUS, cl_strerror(CL_VIRUS), "Fault.unknown"};
}

}  // namespace sluice::faults
