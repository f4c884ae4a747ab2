// SPDX-License-Identifier: GPL-2.0-only
// The engine's life without Node: threads scan while others load, serve, discard and fail, for as many seconds as are asked
// for. Built with a sanitizer by run.sh; by itself it checks that each name belongs to the engine that it came from.
#include <clamav.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "../../native/engine.h"
#include "../../native/sandbox.h"

namespace {

namespace engine = sluice::engine;
using Clock = std::chrono::steady_clock;

constexpr int kScanners = 3;
constexpr int kLoaders = 2;
constexpr char kMark[] = "a mark of this test";

std::atomic<uint64_t> scans = 0;
std::atomic<uint64_t> loads = 0;

void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "swap: %s\n", what);
  std::abort();
}

std::string Hex(const std::string& text) {
  std::string hex;
  char digits[3];
  for (unsigned char byte : text) {
    std::snprintf(digits, sizeof digits, "%02x", byte);
    hex += digits;
  }
  return hex;
}

// Says in every name which database it is; the last one can't be loaded.
std::string MakeDatabase(const std::filesystem::path& root, int number, bool broken) {
  const auto folder = root / ("databases" + std::to_string(number));
  std::filesystem::create_directories(folder);
  std::ofstream file(folder / "a.ndb");
  if (broken) file << "no signature\n";
  for (int line = 0; line < 200; line++) file << "Filler." << line << ":0:*:" << Hex("filler " + std::to_string(line)) << "\n";
  file << "Found." << number << ":0:*:" << Hex(kMark) << "\n";
  return folder;
}

sluice::LoadRequest RequestFor(const std::string& databases, const std::filesystem::path& root, const char* marks) {
  return {{databases}, root / "temporary", marks,  {50 << 20, 100 << 20, 1000, 17, 10'000}, databases,
          0,           kMark,              "text", 0};
}

void Scan(const std::atomic<bool>& stop) {
  // Half of the scanners work confined, as in the service.
  if (scans++ % 2 == 0) {
    sluice::sandbox::ConfineThread({{engine::Current()->temporary_directory()}, {}});
  }
  const std::string found = std::string(5000, ' ') + kMark;
  const std::string clean(5000, 'x');
  while (!stop) {
    engine::Reference current = engine::Current();
    Check(current != nullptr, "no engine");
    const auto& version = current->facts().signature_version;
    const sluice::ScanReport report = current->Scan(found.data(), found.size());
    Check(report.code == CL_VIRUS && report.virus_name.has_value(), "a mark was missed");
    Check(*report.virus_name == "Found." + version.substr(version.size() - 1) + ".UNOFFICIAL", "the name of another engine");
    Check(current->Scan(clean.data(), clean.size()).code == CL_CLEAN, "clean content was found");
    scans += 2;
  }
}

void Load(const std::atomic<bool>& stop, const std::vector<sluice::LoadRequest>& requests, unsigned turn) {
  const sluice::LoadObserver observer{[](sluice::Phase, uint64_t, uint64_t) {}, [] {}};
  for (; !stop; turn++) {
    const auto& request = requests[turn % requests.size()];
    try {
      const uint64_t epoch = engine::Prepare(request, observer).epoch;
      if (turn % 5 == 0) engine::Discard(epoch);
      else engine::Serve(epoch);
    } catch (const sluice::LoadError&) {
      Check(&request == &requests.back(), "a good database was refused");
    }
    loads++;
  }
}

// Leaves no engine: LeakSanitizer does not look into the memory that libclamav maps for one, and would report what
// only this memory refers to.
void FreeAll(sluice::LoadRequest broken, const sluice::LoadObserver& observer) {
  broken.free_first_wait_ms = 10'000;
  try {
    engine::Prepare(broken, observer);
  } catch (const sluice::LoadError&) {
  }
  Check(engine::Current() == nullptr, "an engine is left");
  // Those that were replaced are freed by threads that look for their last scan every 20 ms.
  std::this_thread::sleep_for(std::chrono::seconds(1));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return std::fprintf(stderr, "usage: swap SECONDS FOLDER MARKS\n"), 2;
  const std::chrono::seconds duration(std::atoi(arguments[1]));
  const std::filesystem::path root = arguments[2];
  std::filesystem::create_directories(root / "temporary");
  sluice::ClamavEngine::InitializeLibrary();
  std::vector<sluice::LoadRequest> requests;
  for (int number = 0; number < 4; number++) {
    requests.push_back(RequestFor(MakeDatabase(root, number, number == 3), root, arguments[3]));
  }
  const sluice::LoadObserver observer{[](sluice::Phase, uint64_t, uint64_t) {}, [] {}};
  engine::Serve(engine::Prepare(requests[0], observer).epoch);

  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < kScanners; i++) threads.emplace_back(Scan, std::cref(stop));
  for (int i = 0; i < kLoaders; i++) threads.emplace_back(Load, std::cref(stop), std::cref(requests), i);
  std::this_thread::sleep_for(duration);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  FreeAll(requests.back(), observer);
  std::printf("swap: %llu scans, %llu loads\n", static_cast<unsigned long long>(scans), static_cast<unsigned long long>(loads));
  std::fflush(stdout);
}
