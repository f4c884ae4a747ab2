// SPDX-License-Identifier: GPL-2.0-only
// The only file that speaks to libclamav: builds an engine from folders of databases, scans memory with it.
#include <clamav.h>
#include <dirent.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string_view>
#include <system_error>

#include "allocations.h"
#include "clamav-engine.h"
#include "listener.h"
#include "quota.h"
#include "utf8.h"

namespace sluice {
namespace {

// The end of what libclamav says of a damaged database holds the reason.
constexpr size_t kMessagesInReason = 3;
// A name per matching signature; a verdict needs one, and every heuristic name is kept beyond this.
constexpr size_t kNamesKept = 64;
constexpr std::string_view kHeuristic = "Heuristics.";
constexpr std::string_view kEncrypted = "Heuristics.Encrypted.";
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

struct Alerts {
  std::vector<std::string> names;
  bool out_of_memory = false;
  bool storage_full = false;
  bool filled_by_others = false;
};

// Before each layer of a content. libclamav knows no way to break a scan off but this one.
cl_error_t OnLayer(int, const char*, void* context) noexcept {
  if (!quota::Over()) return CL_CLEAN;
  auto* alerts = static_cast<Alerts*>(context);
  alerts->storage_full = true;
  alerts->filled_by_others = alerts->filled_by_others || quota::OverByOthers();
  return CL_VIRUS;
}

void OnVirusFound(int, const char* name, void* context) noexcept {
  auto* alerts = static_cast<Alerts*>(context);
  if (name == nullptr) return;
  std::string_view view(name);
  if (view == kStopped) return;
  if (alerts->names.size() >= kNamesKept && !IsNoMatch(view)) return;
  if (std::find(alerts->names.begin(), alerts->names.end(), view) != alerts->names.end()) return;
  try {
    alerts->names.emplace_back(view);
  } catch (const std::bad_alloc&) {
    alerts->out_of_memory = true;
  }
}

// What the callbacks of a load need.
struct Loading {
  const LoadObserver& observer;
  std::string unprintable_name;
};

// libclamav aborts the process when a signature matches whose name is not UTF-8, so none may be loaded.
int OnSignature(const char*, const char* name, unsigned int, void* context) noexcept {
  auto* loading = static_cast<Loading*>(context);
  loading->observer.step();
  if (name == nullptr || IsUtf8(name)) return 0;
  try {
    loading->unprintable_name = name;
  } catch (const std::bad_alloc&) {
    return 1;
  }
  return 1;  // leave it out
}

template <Phase phase>
cl_error_t OnProgress(size_t total, size_t done, void* context) {
  const LoadObserver& observer = static_cast<Loading*>(context)->observer;
  observer.progress(phase, done, total);
  observer.step();
  return CL_SUCCESS;
}

// What happened, and the last things libclamav said before it.
std::string Reason(std::string reason, const std::vector<std::string>& messages) {
  size_t first = messages.size() > kMessagesInReason ? messages.size() - kMessagesInReason : 0;
  for (size_t i = first; i < messages.size(); i++) reason += "; " + messages[i];
  return reason;
}

cl_error_t LoadPath(cl_engine* engine, const std::string& path, unsigned int* count) {
  return cl_load(path.c_str(), engine, count, CL_DB_STDOPT);
}

// libclamav reads the ignore lists of a folder before its signatures, but not those of the next folder:
// an operator's own list must hold for the official databases too.
void LoadIgnoreLists(cl_engine* engine, const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(directory.c_str()), closedir);
    if (!listing) throw LoadError("Cannot read the signature folder " + directory + ": " + std::strerror(errno));
    while (const dirent* entry = readdir(listing.get())) {
      std::string_view name(entry->d_name);
      if (!name.ends_with(".ign") && !name.ends_with(".ign2")) continue;
      unsigned int ignored = 0;
      std::string path = directory + "/" + std::string(name);
      cl_error_t code = LoadPath(engine, path, &ignored);
      if (code != CL_SUCCESS) throw LoadError("Cannot load the ignore list " + path + ": " + cl_strerror(code));
    }
  }
}

// The unpacker of RAR archives is a library of its own that libclamav loads where it finds it.
bool CanUnpackRar() {
  const auto find = [](dl_phdr_info* object, size_t, void*) {
    return static_cast<int>(std::strstr(object->dlpi_name, "libclamunrar_iface") != nullptr);
  };
  return dl_iterate_phdr(find, nullptr) != 0;
}

void LoadMarks(cl_engine* engine, const std::string& directory) {
  std::vector<std::string> files{"encrypted.ndb"};
  if (!CanUnpackRar()) files.emplace_back("unscanned-rar.ndb");
  for (const std::string& file : files) {
    unsigned int marks = 0;
    const std::string path = directory + "/" + file;
    cl_error_t code = LoadPath(engine, path, &marks);
    if (code != CL_SUCCESS || marks == 0) throw LoadError("Cannot load the marks in " + path + ": " + cl_strerror(code));
  }
}

struct NumberSetting {
  cl_engine_field field;
  uint64_t value;
};

void Set(cl_engine* engine, const NumberSetting& setting) {
  cl_error_t code = cl_engine_set_num(engine, setting.field, static_cast<long long>(setting.value));
  if (code != CL_SUCCESS) {
    throw LoadError("libclamav refuses setting " + std::to_string(setting.field) + ": " + cl_strerror(code));
  }
}

// What the self-test's samples may take; they are a few bytes.
constexpr uint64_t kProofMillis = 60'000;

}  // namespace

void ClamavEngine::InitializeLibrary() {
  static std::once_flag once;
  static cl_error_t result = CL_ERROR;
  std::call_once(once, [] {
    cl_set_clcb_msg(OnMessage);
    result = cl_init(CL_INIT_DEFAULT);
    // It has loaded the unpacker of RAR archives by now.
    allocations::Watch();
  });
  if (result != CL_SUCCESS) throw LoadError(std::string("libclamav does not initialise: ") + cl_strerror(result));
}

void ClamavEngine::Free::operator()(cl_engine* engine) const { cl_engine_free(engine); }

void ClamavEngine::Configure(cl_engine* engine, const LoadRequest& request) {
  const Limits& limits = request.limits;
  const std::array settings{
      NumberSetting{CL_ENGINE_MAX_SCANSIZE, limits.max_scan_size_bytes},
      // Above the scan size: a ZIP member over MaxFileSize is cut without an alert, over MaxScanSize it alerts.
      NumberSetting{CL_ENGINE_MAX_FILESIZE, limits.max_file_size_bytes},
      NumberSetting{CL_ENGINE_MAX_FILES, limits.max_files},
      NumberSetting{CL_ENGINE_MAX_RECURSION, limits.max_recursion},
      NumberSetting{CL_ENGINE_MAX_SCANTIME, limits.max_scan_time_ms},
      // Over these, steps are skipped in silence (by default embedded executables over 40 MB, HTML over 40 MB or
      // 8 MB of text, scripts over 20 MB, ZIPs over 1 MB that hold an executable's parts, PCRE over 100 MB):
      // nothing that the scan size admits may be skipped.
      NumberSetting{CL_ENGINE_MAX_EMBEDDEDPE, limits.max_scan_size_bytes},
      NumberSetting{CL_ENGINE_MAX_HTMLNORMALIZE, limits.max_scan_size_bytes},
      NumberSetting{CL_ENGINE_MAX_HTMLNOTAGS, limits.max_scan_size_bytes},
      NumberSetting{CL_ENGINE_MAX_SCRIPTNORMALIZE, limits.max_scan_size_bytes},
      NumberSetting{CL_ENGINE_MAX_ZIPTYPERCG, limits.max_scan_size_bytes},
      NumberSetting{CL_ENGINE_PCRE_MAX_FILESIZE, limits.max_scan_size_bytes},
      // Keyed by MD5: a file made to collide with a clean one would inherit its verdict.
      NumberSetting{CL_ENGINE_DISABLE_CACHE, 1},
  };
  for (const NumberSetting& setting : settings) Set(engine, setting);
  cl_error_t code = cl_engine_set_str(engine, CL_ENGINE_TMPDIR, request.temporary_directory.c_str());
  if (code != CL_SUCCESS) throw LoadError(std::string("libclamav refuses its temporary folder: ") + cl_strerror(code));
  cl_engine_set_clcb_virus_found(engine, OnVirusFound);
  cl_engine_set_clcb_pre_scan(engine, OnLayer);
}

std::shared_ptr<const ClamavEngine> ClamavEngine::Build(const LoadRequest& request, const LoadObserver& observer,
                                                        uint64_t epoch) {
  const auto started = std::chrono::steady_clock::now();
  EngineFacts facts{epoch, cl_retver(), 0, request.signature_version, request.signatures_built_at, 0, {}};
  Listener listener;
  Listening listening(listener);
  try {
    quota::Watch(request.temporary_directory, request.limits.max_temporary_bytes);
  } catch (const std::system_error& error) {
    throw LoadError(std::string("The temporary folder cannot be watched: ") + error.what());
  }
  Handle engine(cl_engine_new());
  if (!engine) throw LoadError("Not enough memory for an engine");
  Configure(engine.get(), request);

  Loading loading{observer, {}};
  cl_engine_set_clcb_sigload(engine.get(), OnSignature, &loading);
  cl_engine_set_clcb_sigload_progress(engine.get(), OnProgress<Phase::kLoad>, &loading);
  cl_engine_set_clcb_engine_compile_progress(engine.get(), OnProgress<Phase::kCompile>, &loading);

  LoadIgnoreLists(engine.get(), request.directories);
  for (const std::string& directory : request.directories) {
    unsigned int before = facts.signature_count;
    cl_error_t code = LoadPath(engine.get(), directory, &facts.signature_count);
    if (code != CL_SUCCESS) {
      throw LoadError("Cannot load the signatures in " + directory + ": " + Reason(cl_strerror(code), listener.messages));
    }
    if (!loading.unprintable_name.empty()) {
      throw LoadError("A signature in " + directory + " has a name that is not UTF-8: " + loading.unprintable_name);
    }
    if (facts.signature_count == before) {
      throw LoadError(Reason("There is no signature in " + directory, listener.messages));
    }
  }
  // Told once, in the folders' order: the marks are no part of what was asked for.
  cl_engine_set_clcb_sigload_progress(engine.get(), nullptr, nullptr);
  LoadMarks(engine.get(), request.marks_directory);
  cl_error_t code = cl_engine_compile(engine.get());
  if (code != CL_SUCCESS) throw LoadError("Cannot compile the signatures: " + Reason(cl_strerror(code), listener.messages));

  facts.warnings = std::move(listener.messages);
  // The observer ends with this call, the engine does not.
  cl_engine_set_clcb_sigload(engine.get(), nullptr, nullptr);
  cl_engine_set_clcb_engine_compile_progress(engine.get(), nullptr, nullptr);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - started;
  facts.load_millis = took.count();
  return std::shared_ptr<const ClamavEngine>(
      new ClamavEngine(std::move(engine), std::move(facts), request.temporary_directory));
}

void ClamavEngine::Prove(const LoadRequest& request) const {
  // Nobody else has the engine yet. The time that contents get may be short, and this machine busy: that says nothing of the engine.
  Set(handle_.get(), {CL_ENGINE_MAX_SCANTIME, kProofMillis});
  std::string with = " (with the signatures in ";
  for (const std::string& directory : request.directories) with += (&directory == &request.directories.front() ? "" : ", ") + directory;
  with += ")";
  const std::string& infected = request.infected_sample;
  if (!infected.empty()) {
    ScanReport report = Scan(infected.data(), infected.size());
    if (report.code != CL_VIRUS || !report.virus_name || IsNoMatch(*report.virus_name)) {
      throw LoadError(std::string("The self-test failed: the test file is not found, the answer is ") + report.code_text +
                      with);
    }
  }
  const std::string& clean = request.clean_sample;
  ScanReport report = Scan(clean.data(), clean.size());
  if (report.code != CL_CLEAN || !report.alerts.empty()) {
    throw LoadError("The self-test failed: harmless text is " +
                    (report.virus_name ? "found to be " + *report.virus_name : "answered with " + std::string(report.code_text)) +
                    with);
  }
  Set(handle_.get(), {CL_ENGINE_MAX_SCANTIME, request.limits.max_scan_time_ms});
}

ScanReport ClamavEngine::Scan(const void* content, size_t length) const {
  ScanReport report = ScanOnce(content, length, false);
  // In normal mode libclamav keeps one heuristic name of all it met, and which one depends on the file: an encrypted
  // member can hide that a limit was exceeded elsewhere. So such a file is looked at again, collecting every name.
  // Real signatures come first in both modes, and clean files never get here. A mark ends a scan like a signature does.
  if (!report.virus_name || !(report.virus_name->starts_with(kEncrypted) || report.virus_name->starts_with(kMark))) return report;
  ScanReport again = ScanOnce(content, length, true);
  if (again.code != CL_VIRUS) return again.code == CL_CLEAN ? report : again;
  again.virus_name = std::move(report.virus_name);
  return again;
}

ScanReport ClamavEngine::ScanOnce(const void* content, size_t length, bool all_matches) const {
  Alerts alerts;
  const char* name = nullptr;
  unsigned long scanned = 0;
  cl_scan_options options{};
  options.general = CL_SCAN_GENERAL_HEURISTICS | (all_matches ? CL_SCAN_GENERAL_ALLMATCHES : 0);
  options.parse = ~0U;
  options.heuristic =
      CL_SCAN_HEURISTIC_EXCEEDS_MAX | CL_SCAN_HEURISTIC_ENCRYPTED_ARCHIVE | CL_SCAN_HEURISTIC_ENCRYPTED_DOC;

  std::unique_ptr<cl_fmap_t, decltype(&cl_fmap_close)> map(cl_fmap_open_memory(content, length), cl_fmap_close);
  if (!map) return {CL_EMEM, cl_strerror(CL_EMEM), std::nullopt, {}, false};
  Listener listener;
  // Before the content has taken anything.
  bool lacks_storage = !storage_.Works();
  alerts.filled_by_others = quota::Over();
  cl_error_t code;
  {
    Listening listening(listener);
    quota::Scanning scanning;
    allocations::Failures failures;
    code = cl_scanmap_callback(map.get(), nullptr, &name, &scanned, handle_.get(), &options, &alerts);
    alerts.out_of_memory = alerts.out_of_memory || failures.Any();
  }
  bool signature_matched = code == CL_VIRUS && name != nullptr && !IsNoMatch(name);
  lacks_storage = lacks_storage || !storage_.Works();
  const bool storage_failed = listener.storage_failed || alerts.storage_full || lacks_storage;
  if (!signature_matched && storage_failed) code = CL_EWRITE;
  if (!signature_matched && alerts.out_of_memory) code = CL_EMEM;

  // What libclamav merely says of its files can be the content's doing, and so can a folder that this scan alone has filled.
  const bool is_ours = code == CL_EWRITE && (lacks_storage || (alerts.storage_full && alerts.filled_by_others));
  ScanReport report{code, cl_strerror(code), std::nullopt, std::move(alerts.names), is_ours};
  // The name belongs to the engine, which the caller holds a reference to until this copy is made.
  if (code == CL_VIRUS && name != nullptr) report.virus_name.emplace(name);
  return report;
}

}  // namespace sluice
