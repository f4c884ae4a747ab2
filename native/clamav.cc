// SPDX-License-Identifier: GPL-2.0-only
// Scans memory with an engine of libclamav, and reads its answer.
#include <clamav.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <string_view>

#include "allocations.h"
#include "clamav-engine.h"
#include "content-types.h"
#include "digests.h"
#include "expressions.h"
#include "files.h"
#include "listener.h"
#include "maps.h"
#include "quota.h"
#include "regexes.h"
#include "states.h"

namespace sluice {
namespace {

// A name per matching signature; a verdict needs one, and every heuristic name is kept beyond this.
constexpr size_t kNamesKept = 64;
constexpr std::string_view kHeuristic = "Heuristics.";
// Names of signatures/marks/: no malware, but something that was not looked into.
constexpr std::string_view kMark = "Sluice.Mark.";

// What libclamav calls a scan that OnLayer ended.
constexpr std::string_view kStopped = "Detected.By.Callback";

bool IsNoMatch(std::string_view name) {
  return name.starts_with(kHeuristic) || name.starts_with(kMark) || name == kStopped;
}

void OnMessage(enum cl_msg severity, const char*, const char* message, void*) noexcept {
  if (message != nullptr && severity >= CL_MSG_WARN) Hear(message);
}

}  // namespace

void ClamavEngine::InitializeLibrary() {
  static std::once_flag once;
  static cl_error_t result = CL_ERROR;
  std::call_once(once, [] {
    cl_set_clcb_msg(OnMessage);
    result = cl_init(CL_INIT_DEFAULT);
    // It has loaded the unpacker of RAR archives by now.
    allocations::Watch();
    files::Watch();
    maps::Watch();
    expressions::Watch();
    regexes::Watch();
    digests::Watch();
    matcher::Watch();
    states::Watch();
  });
  if (result != CL_SUCCESS) throw LoadError(std::string("libclamav does not initialise: ") + cl_strerror(result));
}

// What the callbacks of a scan note down.
struct Alerts {
  std::vector<std::string> names;
  // Null: the engine has no gates.
  gates::Hits* hits = nullptr;
  const matcher::Reader* reader = nullptr;
  layers::Layers* layers = nullptr;
  WindowCounts::Met* windows = nullptr;
  std::optional<Deadline> deadline;
  // Of the outermost layer.
  uint32_t type = content_types::kNone;
  bool out_of_memory = false;
  bool storage_full = false;
  bool filled_by_others = false;
  bool late = false;
};

namespace {

// Before each layer of a content. libclamav knows no way to break a scan off but this one.
cl_error_t OnLayer(int, const char*, void* context) noexcept {
  auto* alerts = static_cast<Alerts*>(context);
  if (quota::Over()) {
    alerts->storage_full = true;
    alerts->filled_by_others = alerts->filled_by_others || quota::OverByOthers();
  }
  if (alerts->deadline && std::chrono::steady_clock::now() >= *alerts->deadline) alerts->late = true;
  return alerts->storage_full || alerts->late ? CL_VIRUS : CL_CLEAN;
}

cl_error_t OnInspection(int, const char* type, const char**, size_t, const char*, size_t size, const char* bytes,
                        uint32_t level, uint32_t, void* context) noexcept {
  auto* alerts = static_cast<Alerts*>(context);
  if (level == 0 && type != nullptr) alerts->type = content_types::NumberOf(type);
  const std::string_view begins = bytes == nullptr ? std::string_view() : std::string_view(bytes, size);
  if (alerts->hits != nullptr) alerts->hits->NoteLayer(level, type == nullptr ? "" : type, begins);
  try {
    // Where its types of files can't be said anew (matcher.cc).
    if (alerts->layers != nullptr && type != nullptr && std::string_view(type) == "CL_TYPE_IGNORED") alerts->layers->NoteIgnored();
    if (bytes == nullptr) return CL_CLEAN;
    if (alerts->windows != nullptr) alerts->windows->Note(type, begins);
    if (alerts->layers != nullptr) alerts->layers->Note(level, {reinterpret_cast<const uint8_t*>(bytes), size});
  } catch (const std::bad_alloc&) {
    alerts->out_of_memory = true;
  }
  return CL_CLEAN;
}

void OnVirusFound(int, const char* name, void* context) noexcept {
  auto* alerts = static_cast<Alerts*>(context);
  if (name == nullptr) return;
  std::string_view view(name);
  if (view == kStopped) return;
  try {
    if (alerts->hits != nullptr && alerts->hits->Note(view)) return;
    if (alerts->names.size() >= kNamesKept && !IsNoMatch(view)) return;
    if (std::find(alerts->names.begin(), alerts->names.end(), view) != alerts->names.end()) return;
    alerts->names.emplace_back(view);
  } catch (const std::bad_alloc&) {
    alerts->out_of_memory = true;
  }
}

}  // namespace

void ClamavEngine::SetScanCallbacks(cl_engine* engine) {
  cl_engine_set_clcb_virus_found(engine, OnVirusFound);
  cl_engine_set_clcb_pre_scan(engine, OnLayer);
  cl_engine_set_clcb_file_inspection(engine, OnInspection);
}

bool IsMatch(const ScanReport& report) { return report.code == CL_VIRUS && report.virus_name && !IsNoMatch(*report.virus_name); }

ScanReport ClamavEngine::Scan(const void* content, size_t length, std::optional<Deadline> deadline, layers::Layers* layers,
                              WindowCounts::Met* windows) const {
  Alerts alerts;
  alerts.deadline = deadline;
  alerts.layers = layers;
  alerts.windows = windows;
  ScanReport report = ScanOnce(content, length, false, alerts);
  // In normal mode libclamav keeps one heuristic name of all it met, and which one depends on the file: an encrypted
  // member, or what is merely suspected, can hide that a limit was exceeded elsewhere. And a limit ends the scan before what matches behind it. So such a
  // file is looked at again, collecting every name, as with gates. Clean files never get here. A mark ends a scan like a signature does.
  if (!report.virus_name || !IsNoMatch(*report.virus_name) || *report.virus_name == kLate) return report;
  Alerts all;
  all.deadline = !deadline && layers != nullptr ? layers->deadline() : deadline;
  all.layers = layers;
  ScanReport again = ScanOnce(content, length, true, all);
  if (IsMatch(again)) return again;
  if (again.code != CL_VIRUS) return again.code == CL_CLEAN ? report : again;
  again.virus_name = std::move(report.virus_name);
  return again;
}

ScanReport ClamavEngine::ScanWithGates(const void* content, size_t length, std::optional<Deadline> deadline, layers::Layers& layers,
                                       gates::Hits& hits) const {
  Alerts alerts;
  alerts.deadline = deadline;
  alerts.layers = &layers;
  alerts.hits = &hits;
  const matcher::Reader reader = [&](uint32_t target, std::span<const uint8_t> bytes) {
    try {
      hits.Look(target, bytes);
    } catch (const std::bad_alloc&) {
      alerts.out_of_memory = true;
    }
  };
  alerts.reader = &reader;
  return ScanOnce(content, length, true, alerts);
}

void ClamavEngine::LeavePages() const {
  constexpr std::chrono::milliseconds kLeast{100};
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  if (now - left_.load(std::memory_order_relaxed) < kLeast) return;
  left_.store(now, std::memory_order_relaxed);
  pages_.Leave();
}

bool ClamavEngine::Reads(const literals::Literals& literals) const {
  for (const auto& [content, gates] : literals.Samples()) {
    std::set<uint32_t> met;
    const matcher::Reader reader = [&](uint32_t target, std::span<const uint8_t> bytes) {
      literals.Find(target, bytes, [&](literals::Gate gate) { met.insert(gate.number); });
    };
    Alerts alerts;
    alerts.reader = &reader;
    ScanOnce(content.data(), content.size(), true, alerts);
    if (!std::all_of(gates.begin(), gates.end(), [&](uint32_t gate) { return met.contains(gate); })) return false;
  }
  return true;
}

namespace {

void EndLayers(Alerts& alerts, bool is_early) {
  alerts.layers->End(is_early);
  if (!alerts.layers->lacked_room()) return;
  alerts.storage_full = true;
  alerts.filled_by_others = alerts.filled_by_others || quota::IsShared();
}

// libclamav's own, or where that is a gate's or says that we have ended the scan, the best of the others.
std::optional<std::string> NameOf(const char* name, const std::vector<std::string>& names) {
  const bool is_named = name != nullptr && name != kStopped && !std::string_view(name).starts_with(gates::kPrefix);
  if (is_named) return name;
  const auto match = std::find_if(names.begin(), names.end(), [](const std::string& one) { return !IsNoMatch(one); });
  if (match != names.end()) return *match;
  if (names.empty()) return std::nullopt;
  return names.front();
}

}  // namespace

// CL_SCAN_PARSE_IMAGE_FUZZY_HASH, which libclamav before 1.4 doesn't have.
constexpr uint32_t kImageHashes = 0x1000;

ScanReport ClamavEngine::ScanOnce(const void* content, size_t length, bool all_matches, Alerts& alerts) const {
  const char* name = nullptr;
  unsigned long scanned = 0;
  cl_scan_options options{};
  options.general = CL_SCAN_GENERAL_HEURISTICS | (all_matches ? CL_SCAN_GENERAL_ALLMATCHES : 0);
  options.parse = image_hashes_ ? ~0U : ~kImageHashes;
  options.heuristic =
      CL_SCAN_HEURISTIC_EXCEEDS_MAX | CL_SCAN_HEURISTIC_ENCRYPTED_ARCHIVE | CL_SCAN_HEURISTIC_ENCRYPTED_DOC;

  std::unique_ptr<cl_fmap_t, decltype(&cl_fmap_close)> map(cl_fmap_open_memory(content, length), cl_fmap_close);
  if (!map) return {CL_EMEM, cl_strerror(CL_EMEM), std::nullopt, {}, false, content_types::kNone};
  Listener listener;
  files::Use use(storage_);
  alerts.filled_by_others = quota::Over();
  cl_error_t code;
  {
    Listening listening(listener);
    quota::Scanning scanning;
    allocations::Failures failures;
    matcher::Matching matching(finders_, alerts.reader, all_matches);
    // As libclamav has it for all else.
    const std::chrono::milliseconds limit(cl_engine_get_num(handle_.get(), CL_ENGINE_MAX_SCANTIME, nullptr));
    regexes::Timed expressions(std::min(std::chrono::steady_clock::now() + limit, alerts.deadline.value_or(Deadline::max())));
    if (alerts.layers != nullptr) alerts.layers->Begin();
    code = cl_scanmap_callback(map.get(), nullptr, &name, &scanned, handle_.get(), &options, &alerts);
    // With all matches it goes on behind the first one.
    if (alerts.layers != nullptr) EndLayers(alerts, code != CL_CLEAN && !all_matches);
    alerts.out_of_memory = alerts.out_of_memory || failures.Any();
    if (expressions.has_ended()) {
      alerts.late = true;
      if (code == CL_CLEAN) code = CL_VIRUS;
    }
  }
  // libclamav may have said it as well.
  const bool is_said = std::find(alerts.names.begin(), alerts.names.end(), kLate) != alerts.names.end();
  if (alerts.late && !is_said) alerts.names.emplace_back(kLate);
  // The name belongs to the engine, which the caller holds a reference to until this copy is made.
  std::optional<std::string> found;
  if (code == CL_VIRUS) found = NameOf(name, alerts.names);
  // Gates are all that hit.
  if (code == CL_VIRUS && !found && name != nullptr) code = CL_CLEAN;
  const bool signature_matched = found && !IsNoMatch(*found);
  const bool lacks_storage = use.LackedStorage();
  if (use.was_refused()) {
    alerts.storage_full = true;
    alerts.filled_by_others = alerts.filled_by_others || use.filled_by_others();
  }
  const bool storage_failed = listener.storage_failed || alerts.storage_full || lacks_storage;
  if (!signature_matched && storage_failed) code = CL_EWRITE;
  if (!signature_matched && alerts.out_of_memory) code = CL_EMEM;
  if (code != CL_VIRUS) found.reset();
  // What libclamav merely says of its files can be the content's doing, and so can a folder that this scan alone has filled.
  const bool filled_by_others = alerts.storage_full && alerts.filled_by_others;
  const bool is_ours = code == CL_EWRITE && (lacks_storage || listener.lacked_descriptors || filled_by_others);
  const char* text = code == CL_EWRITE ? "no room to unpack (SCAN_TEMP_MB)" : cl_strerror(code);
  return {code, text, std::move(found), std::move(alerts.names), is_ours, alerts.type};
}

}  // namespace sluice
