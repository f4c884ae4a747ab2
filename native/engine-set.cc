// SPDX-License-Identifier: GPL-2.0-only
// Decides which engines look, and makes one answer of what they say.
#include "engine-set.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace sluice {
namespace {

constexpr const char* kUnread = "What libclamav matches can't be read along: it looks for all gates by itself, which takes longer";

// For samples that prove engines. The time that contents get may be short, and this machine busy: that says nothing of an engine.
constexpr uint32_t kProofMillis = 60'000;

constexpr WindowCounts::Bounds kTuning{24 << 20, WindowCounts::kAll, WindowCounts::kAll, WindowCounts::kAll};

void Add(ScanReport& report, const std::string& name) {
  if (std::find(report.alerts.begin(), report.alerts.end(), name) == report.alerts.end()) report.alerts.push_back(name);
}

// Into an answer without a match go the errors and heuristic names of another one.
void Merge(ScanReport& report, const ScanReport& look) {
  for (const std::string& name : look.alerts) Add(report, name);
  if (look.virus_name) Add(report, *look.virus_name);
  const auto says_more = [](const ScanReport& one) { return one.code > 1; };
  if (says_more(report) || look.code == 0) return;
  report.code = look.code;
  report.code_text = look.code_text;
  report.storage_failed = look.storage_failed;
  if (!report.virus_name) report.virus_name = look.virus_name;
}

}  // namespace

EngineSet::EngineSet(std::vector<Engine> engines, gates::NameSet unofficial, std::unique_ptr<const gates::Rules> rules,
                     const LoadRequest& request, std::chrono::steady_clock::time_point began)
    : first_(engines.front()),
      lookers_(engines.begin() + 1, engines.end()),
      unofficial_(std::move(unofficial)),
      limits_(request.limits),
      counters_(request.gates ? std::make_unique<gates::Counters>(request.gates->gate_count) : nullptr),
      rules_(std::move(rules)),
      window_counts_(request.windows.empty() ? nullptr : std::make_unique<const WindowCounts>(request.windows, kTuning)),
      facts_(first_->facts()) {
  if (rules_ && !rules_->literals) facts_.warnings.emplace_back(kUnread);
  for (const Engine& looker : lookers_) {
    const EngineFacts& facts = looker->facts();
    facts_.signature_count += facts.signature_count;
    facts_.warnings.insert(facts_.warnings.end(), facts.warnings.begin(), facts.warnings.end());
  }
  facts_.load_millis = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
}

std::shared_ptr<const EngineSet> EngineSet::Build(const LoadRequest& request, const LoadObserver& observer, uint64_t epoch) {
  const auto began = std::chrono::steady_clock::now();
  if (!request.gates) {
    return std::shared_ptr<const EngineSet>(
        new EngineSet({ClamavEngine::Build(request, observer, epoch)}, gates::NameSet({}), nullptr, request, began));
  }
  const GateFiles& files = *request.gates;
  auto rules = std::make_unique<gates::Rules>(files);
  gates::Names names(files);
  std::function<void()> read_literals;
  if (matcher::Watch()) read_literals = [&] { rules->literals.emplace(files.literals, files.literal_count); };
  std::vector<Engine> engines = ClamavEngine::BuildWithGates(request, observer, epoch, names, read_literals);
  engines.front()->SetScanTime(kProofMillis);
  // Another libclamav may call its matcher otherwise.
  if (rules->literals && !engines.front()->Reads(*rules->literals)) {
    rules->literals.reset();
    engines.clear();
    engines = ClamavEngine::BuildWithGates(request, observer, epoch, names, nullptr);
  }
  engines.front()->SetScanTime(request.limits.max_scan_time_ms);
  return std::shared_ptr<const EngineSet>(
      new EngineSet(std::move(engines), names.Unofficial(), std::move(rules), request, began));
}

void EngineSet::Prove(const LoadRequest& request) const {
  // Nobody else has the engines yet.
  SetScanTime(kProofMillis);
  std::string with = " (with the signatures in ";
  for (const std::string& directory : request.directories) with += (&directory == &request.directories.front() ? "" : ", ") + directory;
  with += ")";
  const std::string& infected = request.infected_sample;
  if (!infected.empty()) {
    ScanReport report = Scan(infected.data(), infected.size());
    if (!IsMatch(report)) {
      throw LoadError(std::string("The self-test failed: the test file is not found, the answer is ") + report.code_text + with);
    }
  }
  const std::string& clean = request.clean_sample;
  ScanReport report = Scan(clean.data(), clean.size());
  if (report.code != 0 || !report.alerts.empty()) {
    throw LoadError("The self-test failed: harmless text is " +
                    (report.virus_name ? "found to be " + *report.virus_name : "answered with " + std::string(report.code_text)) +
                    with);
  }
  SetScanTime(request.limits.max_scan_time_ms);
}

void EngineSet::SetScanTime(uint32_t millis) const {
  first_->SetScanTime(millis);
  for (const Engine& looker : lookers_) looker->SetScanTime(millis);
}

ScanReport EngineSet::Scan(const void* content, size_t length) const {
  if (counters_) counters_->CountScan();
  // All looks together have the time that one scan has.
  layers::Layers layers(limits_, std::chrono::steady_clock::now() + std::chrono::milliseconds(limits_.max_scan_time_ms), length);
  SecondLookTimes times;
  ScanReport report = Look(content, length, layers, times);
  if (!IsMatch(report) && !layers.is_plain()) {
    // Of the content itself, also where the answer is about something in it.
    const uint32_t type = report.type;
    report = LookInside(std::move(report), layers, times);
    report.type = type;
  }
  report.second_look = times.look;
  return report;
}

ScanReport EngineSet::LookInside(ScanReport report, layers::Layers& layers, SecondLookTimes& times) const {
  while (std::optional<layers::Inner> inner = layers.Next()) {
    const auto bytes = inner->held.bytes();
    ScanReport look = Look(bytes.data(), bytes.size(), layers, times);
    if (IsMatch(look)) return look;
    Merge(report, look);
  }
  for (const std::string& mark : layers.marks()) Add(report, mark);
  return report;
}

ScanReport EngineSet::Look(const void* content, size_t length, layers::Layers& layers, SecondLookTimes& times) const {
  if (window_counts_) return LookForWindows(content, length, layers);
  if (!rules_) return first_->Scan(content, length, layers.deadline_of_inner(), &layers);
  gates::Hits hits(*rules_);
  ScanReport report = first_->ScanWithGates(content, length, layers.deadline_of_inner(), layers, hits);
  if (hits.shares() == 0 || IsMatch(report)) return report;
  if (times.look.ended_millis == 0) times.look.began_millis = times.Now();
  report = LookAgain(std::move(report), hits, content, length, layers.deadline());
  times.look.ended_millis = times.Now();
  return report;
}

ScanReport EngineSet::LookForWindows(const void* content, size_t length, layers::Layers& layers) const {
  WindowCounts::Met met(*window_counts_);
  ScanReport report = first_->Scan(content, length, layers.deadline_of_inner(), &layers, &met);
  if (!IsMatch(report)) window_counts_->Add(met, 1);
  return report;
}

std::vector<const ClamavEngine*> EngineSet::LookersFor(uint32_t hit) const {
  std::vector<const ClamavEngine*> lookers;
  for (size_t share = 0; share < lookers_.size(); share++) {
    if ((hit >> share & 1) != 0) lookers.push_back(lookers_[share].get());
  }
  return lookers;
}

// All looks together have the time that one scan has: none begins after it, and one that is under way ends with the layer.
ScanReport EngineSet::LookAgain(ScanReport report, const gates::Hits& hits, const void* content, size_t length,
                                Deadline deadline) const {
  const std::vector<const ClamavEngine*> lookers = LookersFor(hits.shares());
  counters_->CountSecondLook(lookers.size());
  const WindowCounts* const windows = counters_->windows();
  const bool teaches = counters_->Meet({static_cast<const char*>(content), length});
  const uint32_t weight = teaches && windows != nullptr ? counters_->WeightOf(hits) : 0;
  std::optional<WindowCounts::Met> met;
  if (weight > 0) met.emplace(*windows);
  for (const ClamavEngine* looker : lookers) {
    if (std::chrono::steady_clock::now() >= deadline) {
      Add(report, kLate);
      return report;
    }
    // Each of them sees all layers.
    WindowCounts::Met* const noting = met && looker == lookers.front() ? &*met : nullptr;
    ScanReport look = looker->Scan(content, length, deadline, nullptr, noting);
    looker->LeavePages();
    if (!IsMatch(look)) {
      Merge(report, look);
      continue;
    }
    std::string& name = *look.virus_name;
    if (unofficial_.Find(name)) name += ".UNOFFICIAL";
    look.alerts = std::move(report.alerts);
    Add(look, name);
    return look;
  }
  counters_->CountInVain(hits, teaches);
  if (met) windows->Add(*met, weight);
  return report;
}

bool EngineSet::CountWindows(const std::vector<uint64_t>& windows) const {
  if (counters_) counters_->CountWindows(windows);
  return counters_ != nullptr;
}

const WindowCounts* EngineSet::window_counts() const { return counters_ ? counters_->windows() : window_counts_.get(); }

std::optional<GateStatistics> EngineSet::gate_statistics() const {
  if (!counters_) return std::nullopt;
  return counters_->Statistics();
}

}  // namespace sluice
