// SPDX-License-Identifier: GPL-2.0-only
// One compiled libclamav engine: immutable, shared by all threads, freed with its last reference.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gates.h"
#include "layers.h"
#include "matcher.h"
#include "pages.h"
#include "report.h"
#include "storage.h"
#include "window-counts.h"

struct cl_engine;

namespace sluice {

struct Alerts;
class Loader;

// What libclamav says itself of a scan that takes too long.
constexpr const char* kLate = "Heuristics.Limits.Exceeded.MaxScanTime";

using Deadline = std::chrono::steady_clock::time_point;

class ClamavEngine {
 public:
  // Once per process however often it is called, on the thread that loads the addon; throws LoadError.
  static void InitializeLibrary();

  // Loads and compiles on the calling thread; throws LoadError with a reason that names folder, file and line.
  static std::shared_ptr<const ClamavEngine> Build(const LoadRequest& request, const LoadObserver& observer, uint64_t epoch);

  // First an engine that leaves out the signatures in `behind_gates`, notes which of them the databases have, and loads the gates of the request instead,
  // but for those that are plain bytes, where these are looked for elsewhere (literals.h): what makes that ready is called beside it. Then an engine for each share: of the met signatures in
  // it, and of all that decides how content is taken apart. In each, signatures match as in one engine that has all of them (overlap.h).
  static std::vector<std::shared_ptr<const ClamavEngine>> BuildWithGates(const LoadRequest& request, const LoadObserver& observer,
                                                                         uint64_t epoch, gates::Names& behind_gates,
                                                                         const std::function<void()>& read_literals);

  // Reads the content in place; nobody may write to it meanwhile. Any number of threads may scan at once. No layer is begun
  // after the deadline.
  // Layers are noted down where they are asked for, and so are windows.
  ScanReport Scan(const void* content, size_t length, std::optional<Deadline> deadline, layers::Layers* layers,
                  WindowCounts::Met* windows = nullptr) const;

  // Goes on after a match, so that all gates are met.
  ScanReport ScanWithGates(const void* content, size_t length, std::optional<Deadline> deadline, layers::Layers& layers,
                           gates::Hits& hits) const;

  // Whether all that a sample has in it is given to its matcher.
  bool Reads(const literals::Literals& literals) const;

  // Of one that lies in a file: until its next look it takes no memory. Where looks follow one another, not after each: the pages cost half a millisecond.
  void LeavePages() const;

  // While nobody else has the engine.
  void SetScanTime(uint32_t millis) const;

  const EngineFacts& facts() const { return facts_; }
  const std::string& temporary_directory() const { return storage_.directory(); }

 private:
  struct Free {
    void operator()(cl_engine* engine) const;
  };
  using Handle = std::unique_ptr<cl_engine, Free>;

  ClamavEngine(Handle handle, matcher::Finders finders, EngineFacts facts, const LoadRequest& request)
      : handle_(std::move(handle)),
        finders_(std::move(finders)),
        facts_(std::move(facts)),
        storage_(request.temporary_directory),
        image_hashes_(request.image_hashes) {}
  friend class Loader;
  static void Configure(cl_engine* engine, const LoadRequest& request);
  static void SetScanCallbacks(cl_engine* engine);
  ScanReport ScanOnce(const void* content, size_t length, bool all_matches, Alerts& alerts) const;

  Handle handle_;
  matcher::Finders finders_;
  EngineFacts facts_;
  Storage storage_;
  bool image_hashes_;
  Pages pages_;
  mutable std::atomic<std::chrono::steady_clock::duration> left_{};
};

// A signature matched: neither a heuristic nor a mark of ours.
bool IsMatch(const ScanReport& report);

}  // namespace sluice
