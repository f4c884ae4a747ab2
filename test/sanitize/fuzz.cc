// SPDX-License-Identifier: GPL-2.0-only
// A libFuzzer target for the border between our C++ and libclamav: names of signatures as bytes, limits, contents of any
// length. What must hold of every report is checked; the rest is AddressSanitizer's. The first bytes of an input say what it is.
#include <clamav.h>
#include <sanitizer/lsan_interface.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../../native/engine-set.h"
#include "../../native/utf8.h"
#include "image.h"

namespace {

using sluice::EngineSet;
using Engine = std::shared_ptr<const EngineSet>;

constexpr char kMark[] = "MARK";
constexpr size_t kEngines = 4;

void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

struct Folder {
  Folder() {
    char name[] = "/dev/shm/sluice-fuzz-XXXXXX";
    Check(mkdtemp(name) != nullptr, "no folder");
    path = name;
    std::filesystem::create_directories(path / "databases");
    std::filesystem::create_directories(path / "temporary");
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

const std::filesystem::path& Root() {
  static Folder folder;
  return folder.path;
}

Engine Build(const std::string& signatures, const sluice::Limits& limits) {
  std::ofstream(Root() / "databases" / "a.ndb", std::ios::binary) << signatures;
  // Expressions that are tried where a match may begin, and one that is tried everywhere.
  std::ofstream(Root() / "databases" / "b.ldb") << "Pairs;Engine:81-255,Target:0;0&1&2;50616972;0/(?:ab|c[d-f]+)g{1,3}\\d/i;0/a.|[^b]+c/s\n";
  const sluice::LoadRequest request{{Root() / "databases"}, Root() / "temporary", MARKS, limits, true, true, 1, "", "clean", {}};
  const sluice::LoadObserver observer{[](double) {}, [] {}};
  return EngineSet::Build(request, observer, 1);
}

// For the whole run: LeakSanitizer doesn't see what an engine points to from its pools, which are mapped. The run of the swaps frees
// its engines, and looks for leaks of theirs.
Engine BuildKept(const sluice::Limits& limits) {
  __lsan::ScopedDisabler unseen;
  return Build("Mark:0:*:4d41524b\n", limits);
}

void CheckReport(const sluice::ScanReport& report) {
  Check(report.code_text != nullptr, "a code without a text");
  Check(!report.virus_name || report.code == CL_VIRUS, "a name without CL_VIRUS");
  Check(std::set(report.alerts.begin(), report.alerts.end()).size() == report.alerts.size(), "an alert twice");
  // libclamav ends the process over a name that is not UTF-8, so none may get that far.
  for (const std::string& name : report.alerts) Check(sluice::IsUtf8(name), "an alert that is not UTF-8");
  Check(!report.virus_name || sluice::IsUtf8(*report.virus_name), "a name that is not UTF-8");
}

// Any bytes for a name: either the load says no, or the match comes back under a name that can be shown.
void FuzzName(std::string name) {
  for (char& byte : name) {
    if (byte == '\n' || byte == '\r' || byte == '\0' || byte == ':') byte = '_';
  }
  Engine engine;
  try {
    engine = Build(name + ":0:*:4d41524b\n" + "Other:0:*:4f54484552\n", {10 << 20, 20 << 20, 100, 10, 5'000});
  } catch (const sluice::LoadError& error) {
    Check(error.what()[0] != '\0', "a refusal without a reason");
    return;
  }
  CheckReport(engine->Scan(kMark, strlen(kMark)));
}

// Contents against limits from next to nothing to plenty.
void FuzzContent(uint8_t which, const uint8_t* content, size_t length) {
  static const Engine engines[kEngines] = {
      BuildKept({1, 2, 1, 1, 5'000}),
      BuildKept({1 << 10, 1 << 11, 3, 2, 5'000}),
      BuildKept({1 << 20, 1 << 21, 100, 5, 5'000}),
      BuildKept({100 << 20, 200 << 20, 10'000, 17, 5'000}),
  };
  // Exactly as long as it says, so that reading one byte too far is seen.
  std::unique_ptr<uint8_t[]> exact(new uint8_t[length]);
  if (length > 0) memcpy(exact.get(), content, length);
  CheckReport(engines[which % kEngines]->Scan(exact.get(), length));
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  Root();
  sluice::ClamavEngine::InitializeLibrary();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t length) {
  if (length < 2) return 0;
  // Building an engine takes a hundred times as long as a scan: one input of sixteen does.
  if (input[0] % 16 == 0) FuzzName(std::string(reinterpret_cast<const char*>(input) + 1, length - 1));
  else if (!IsImage(input[0])) FuzzContent(input[1], input + 2, length - 2);
  else {
    const std::vector<uint8_t> image = ImageOf(input + 2, length - 2);
    FuzzContent(input[1], image.data(), image.size());
  }
  return 0;
}
