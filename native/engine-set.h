// SPDX-License-Identifier: GPL-2.0-only
// What serves: one engine that looks at every content, and those that look again where one of its gates hit. Immutable, swapped as a whole.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clamav-engine.h"
#include "gates.h"

namespace sluice {

class EngineSet {
 public:
  // Loads and compiles on the calling thread; throws LoadError. Without gates in the request it is one engine.
  static std::shared_ptr<const EngineSet> Build(const LoadRequest& request, const LoadObserver& observer, uint64_t epoch);

  // Scans the samples of the request; throws LoadError when the answers are not those of engines that work.
  void Prove(const LoadRequest& request) const;

  // Reads the content in place; nobody may write to it meanwhile. Any number of threads may scan at once.
  ScanReport Scan(const void* content, size_t length) const;

  const EngineFacts& facts() const { return facts_; }
  const std::string& temporary_directory() const { return first_->temporary_directory(); }
  // Nothing where there are no gates.
  std::optional<GateStatistics> gate_statistics() const;
  // Of contents that are looked at twice, from now on. False: there are no gates.
  bool CountWindows(const std::vector<uint64_t>& windows) const;
  // Null where none are asked about.
  const WindowCounts* window_counts() const;

 private:
  using Engine = std::shared_ptr<const ClamavEngine>;
  // Of one scan.
  struct SecondLookTimes {
    const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
    SecondLook look;

    double Now() const { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count(); }
  };

  // The first one looks at every content.
  EngineSet(std::vector<Engine> engines, gates::NameSet unofficial, std::unique_ptr<const gates::Rules> rules,
            const LoadRequest& request, std::chrono::steady_clock::time_point began);
  void SetScanTime(uint32_t millis) const;
  // Which engines must look where these shares were hit.
  std::vector<const ClamavEngine*> LookersFor(uint32_t hit) const;
  // At one content; those inside of it that libclamav passes over are noted down.
  ScanReport Look(const void* content, size_t length, layers::Layers& layers, SecondLookTimes& times) const;
  ScanReport LookForWindows(const void* content, size_t length, layers::Layers& layers) const;
  ScanReport LookInside(ScanReport report, layers::Layers& layers, SecondLookTimes& times) const;
  ScanReport LookAgain(ScanReport report, const gates::Hits& hits, const void* content, size_t length, Deadline deadline) const;

  Engine first_;
  // One for each share.
  std::vector<Engine> lookers_;
  // Signatures behind gates that are not official.
  gates::NameSet unofficial_;
  Limits limits_;
  // Both null: there are no gates.
  std::unique_ptr<gates::Counters> counters_;
  std::unique_ptr<const gates::Rules> rules_;
  std::unique_ptr<const WindowCounts> window_counts_;
  EngineFacts facts_;
};

}  // namespace sluice
