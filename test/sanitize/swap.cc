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

constexpr int kShares = 3;
// Signatures of this share are for programs for Windows, and its gate is one that we look for ourselves.
constexpr int kOfPrograms = 2;

const char* Target(int share) { return share == kOfPrograms ? "1" : "0"; }

std::string Part(const char* which, int share) { return std::string("the ") + which + " part of " + std::to_string(share); }

std::string Behind(int number, int share) { return "Behind." + std::to_string(number) + "." + std::to_string(share); }

std::string BehindExtended(int number, int share) { return "Extended." + Behind(number, share); }

std::string ExtendedSignature(int number, int share) {
  return BehindExtended(number, share) + ":" + Target(share) + ":*:" + Hex(Part("third", share)) + "\n";
}

std::string LogicalSignature(int number, int share) {
  return Behind(number, share) + ";Engine:81-255,Target:" + Target(share) + ";0&1;" + Hex(Part("first", share)) + ";" + Hex(Part("second", share)) + "\n";
}

constexpr int kFillers = 200;

// Says in every name, and by how many signatures it has, which database it is; the last one can't be loaded.
std::string MakeDatabase(const std::filesystem::path& root, int number, bool broken) {
  const auto folder = root / ("databases" + std::to_string(number));
  std::filesystem::create_directories(folder);
  std::ofstream file(folder / "a.ndb");
  if (broken) file << "no signature\n";
  for (int line = 0; line < kFillers + number; line++) file << "Filler." << line << ":0:*:" << Hex("filler " + std::to_string(line)) << "\n";
  file << "Found." << number << ":0:*:" << Hex(kMark) << "\n";
  std::ofstream logical(folder / "b.ldb");
  for (int share = 0; share < kShares; share++) {
    logical << LogicalSignature(number, share);
    file << ExtendedSignature(number, share);
  }
  return folder;
}

// Engines that look only where a gate hits, for the signatures of the database that have shares.
sluice::GateFiles MakeGates(const std::filesystem::path& root, int number) {
  const auto folder = root / ("gates" + std::to_string(number));
  std::filesystem::create_directories(folder);
  sluice::GateFiles files{};
  files.gates = folder / "gates.ndb";
  files.literals = folder / "literals.ndb";
  files.conditions = folder / "conditions.txt";
  // One more is the longest of its kind, and sends nobody.
  files.gate_count = kShares + 1;
  files.literal_count = 1;
  std::ofstream(files.conditions) << "end\n";
  std::ofstream gates(files.gates);
  std::ofstream literals(files.literals);
  gates << sluice::gates::kPrefix << kShares << ".0:" << Target(kOfPrograms) << ":*:" << Hex("longer than all the others are") << "\n";
  for (int share = 0; share < kShares; share++) {
    (share == kOfPrograms ? literals : gates) << sluice::gates::kPrefix << share << "." << (1 << share) << ":" << Target(share)
                                              << ":*:" << Hex(Part("first", share)) << "\n";
    files.shares.push_back(folder / ("share" + std::to_string(share) + ".ldb"));
    std::ofstream(files.shares.back()) << LogicalSignature(number, share);
    std::ofstream(sluice::gates::ExtendedOf(files.shares.back())) << ExtendedSignature(number, share);
  }
  return files;
}

sluice::LoadRequest RequestFor(const std::string& databases, const std::filesystem::path& root, const char* marks) {
  return {{databases}, root / "temporary", marks,  {50 << 20, 100 << 20, 1000, 17, 10'000}, true, true, 1,
          kMark,       "text",             {}};
}

void Scan(const std::atomic<bool>& stop) {
  // Half of the scanners work confined, as in the service.
  if (scans++ % 2 == 0) {
    sluice::sandbox::ConfineThread({{engine::Current()->temporary_directory()}, {}});
  }
  const std::string found = std::string(5000, ' ') + kMark;
  const std::string clean(5000, 'x');
  const std::string behind_one = Part("first", 1) + clean + Part("second", 1);
  const std::string behind_extended = Part("first", 1) + clean + Part("third", 1);
  // Every gate hits.
  const std::string behind_all = "MZ" + Part("first", 0) + Part("first", 1) + Part("first", 2) + clean + Part("second", 2);
  while (!stop) {
    engine::Reference current = engine::Current();
    Check(current != nullptr, "no engine");
    const sluice::ScanReport report = current->Scan(found.data(), found.size());
    Check(report.code == CL_VIRUS && report.virus_name.has_value(), "a mark was missed");
    const int number = static_cast<int>(current->facts().signature_count) - kFillers - 1 - 2 * kShares;
    Check(*report.virus_name == "Found." + std::to_string(number) + ".UNOFFICIAL", "the name of another engine");
    const auto expect = [&current](const std::string& content, const std::string& name) {
      const sluice::ScanReport one = current->Scan(content.data(), content.size());
      Check(one.code == CL_VIRUS && one.virus_name == name + ".UNOFFICIAL", "what is behind a gate was missed");
    };
    expect(behind_one, Behind(number, 1));
    expect(behind_extended, BehindExtended(number, 1));
    expect(behind_all, Behind(number, 2));
    Check(current->Scan(clean.data(), clean.size()).code == CL_CLEAN, "clean content was found");
    scans += 5;
  }
}

void Load(const std::atomic<bool>& stop, const std::vector<sluice::LoadRequest>& requests, unsigned turn) {
  const sluice::LoadObserver observer{[](double) {}, [] {}};
  for (; !stop; turn++) {
    const auto& request = requests[turn % requests.size()];
    try {
      const uint64_t epoch = engine::Prepare(request, observer).epoch;
      if (turn % 5 == 0) engine::Discard(epoch);
      else engine::Serve(epoch);
    } catch (const sluice::LoadError& error) {
      Check(&request == &requests.back(), error.what());
    }
    loads++;
  }
}

// Leaves no engine: LeakSanitizer does not look into the memory that libclamav maps for one, and would report what
// only this memory refers to.
void FreeAll() {
  Check(engine::Clear(std::chrono::seconds(10)), "an engine is left");
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
    // The first one without.
    if (number > 0) requests.back().gates = MakeGates(root, number);
  }
  const sluice::LoadObserver observer{[](double) {}, [] {}};
  engine::Serve(engine::Prepare(requests[0], observer).epoch);

  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < kScanners; i++) threads.emplace_back(Scan, std::cref(stop));
  for (int i = 0; i < kLoaders; i++) threads.emplace_back(Load, std::cref(stop), std::cref(requests), i);
  std::this_thread::sleep_for(duration);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  FreeAll();
  std::printf("swap: %llu scans, %llu loads\n", static_cast<unsigned long long>(scans), static_cast<unsigned long long>(loads));
  std::fflush(stdout);
}
