// SPDX-License-Identifier: GPL-2.0-only
// Builds engines from folders of databases, and from files of gates and of what is behind them.
#include <clamav.h>
#include <dirent.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "clamav-engine.h"
#include "files.h"
#include "known-version.h"
#include "listener.h"
#include "matcher.h"
#include "overlap.h"
#include "pages.h"
#include "parallel.h"
#include "progress.h"
#include "quota.h"
#include "utf8.h"

namespace sluice {
namespace {

// The end of what libclamav says of a damaged database holds the reason.
constexpr size_t kMessagesInReason = 3;
// Which signatures of a file are taken.
enum class Taken {
  kAll,
  // All but those behind gates, which are noted down.
  kUngated,
  // Those that the first engine has noted down.
  kMet,
  // Programs that are behind no gate.
  kPrograms,
  // Those as well that the first engine has noted down.
  kAllPrograms,
};

// What the callbacks of a load need.
struct Loading {
  const LoadObserver& observer;
  Progress::Part progress;
  gates::Names* behind_gates = nullptr;
  Taken taken = Taken::kAll;
  // Signatures and programs that wait behind gates.
  unsigned int left_out = 0;
  // Programs that were taken though they are behind gates.
  unsigned int programs = 0;
  // Of the last one of them.
  const std::string* trigger = nullptr;
  bool out_of_memory = false;
  std::string refused_name;
  // The signatures that are read now are those that the progress is of.
  bool counts = false;
};

// Programs are asked for by the names of their files, then by those of the logical signatures that make them run.
bool Takes(Loading& loading, std::string_view kind, const char* name, bool official) {
  const bool logical = kind == "ldb" && name != nullptr;
  const bool body = logical || (kind == "ndb" && name != nullptr);
  const bool program = kind == "cbc" && name != nullptr;
  gates::Names* behind = loading.behind_gates;
  switch (loading.taken) {
    case Taken::kAll:
      return true;
    case Taken::kUngated:
      if (body && behind->Contains(name)) {
        behind->Meet(name, official);
      } else if (program && behind->ContainsProgram(name)) {
        behind->MeetProgram(name);
      } else {
        return true;
      }
      loading.left_out++;
      return false;
    case Taken::kMet:
      return body && behind->Met(name);
    case Taken::kPrograms:
      return program ? !behind->ContainsProgram(name) : logical && !behind->Contains(name);
    case Taken::kAllPrograms:
      if (program) {
        loading.trigger = behind->TriggerOfMet(name);
        return loading.trigger != nullptr || !behind->ContainsProgram(name);
      }
      // libclamav asks for it right after the program, unless it passes over both.
      if (logical && loading.trigger != nullptr && *loading.trigger == name) {
        loading.trigger = nullptr;
        loading.programs++;
        return true;
      }
      return logical && !behind->Contains(name);
  }
  return true;
}

// libclamav aborts the process when a signature matches whose name is not UTF-8, so none may be loaded. Nor may one that is called
// like a gate.
int OnSignature(const char* kind, const char* name, unsigned int unofficial, void* context) noexcept {
  constexpr int kLeaveOut = 1;
  auto* loading = static_cast<Loading*>(context);
  loading->observer.step();
  if (loading->counts) loading->progress.Read();
  try {
    if (name != nullptr && (!IsUtf8(name) || std::string_view(name).starts_with(gates::kPrefix))) {
      loading->refused_name = name;
      return kLeaveOut;
    }
    return Takes(*loading, kind == nullptr ? "" : kind, name, unofficial == 0) ? 0 : kLeaveOut;
  } catch (const std::bad_alloc&) {
    loading->out_of_memory = true;
    return kLeaveOut;
  }
}

cl_error_t OnCompiled(size_t total, size_t done, void* context) {
  auto* loading = static_cast<Loading*>(context);
  loading->progress.Compiled(done, total);
  loading->observer.step();
  return CL_SUCCESS;
}

// What happened, and the last things libclamav said before it.
std::string Reason(std::string reason, const std::vector<std::string>& messages) {
  size_t first = messages.size() > kMessagesInReason ? messages.size() - kMessagesInReason : 0;
  for (size_t i = first; i < messages.size(); i++) reason += "; " + messages[i];
  return reason;
}

cl_error_t LoadPath(cl_engine* engine, const std::string& path, unsigned int* count, unsigned int more_options = 0) {
  std::optional<files::NothingLeft> uncounted;
  // Nothing but the count of signatures asks whether a file has ended.
  if (IsKnownVersion()) uncounted.emplace();
  return cl_load(path.c_str(), engine, count, CL_DB_STDOPT | more_options);
}

// A file of ours: the names in it are whole as they are.
void LoadOwn(cl_engine* engine, const std::string& path, unsigned int* count) {
  cl_error_t code = LoadPath(engine, path, count, CL_DB_OFFICIAL);
  if (code != CL_SUCCESS) throw LoadError("Cannot load " + path + ": " + cl_strerror(code));
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

}  // namespace

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
      // Over these, libclamav skips steps in silence. Nothing that the scan size admits may be skipped. By default it
      // skips embedded executables over 40 MB, HTML over 40 MB or 8 MB of text, scripts over 20 MB, ZIPs over 1 MB that
      // hold an executable's parts, PCRE over 100 MB, and partitions beyond the 50th.
      NumberSetting{CL_ENGINE_MAX_EMBEDDEDPE, limits.max_scan_size_bytes},
      NumberSetting{CL_ENGINE_MAX_HTMLNORMALIZE, limits.max_scan_size_bytes},
      NumberSetting{CL_ENGINE_MAX_HTMLNOTAGS, limits.max_scan_size_bytes},
      NumberSetting{CL_ENGINE_MAX_SCRIPTNORMALIZE, limits.max_scan_size_bytes},
      NumberSetting{CL_ENGINE_MAX_ZIPTYPERCG, limits.max_scan_size_bytes},
      NumberSetting{CL_ENGINE_PCRE_MAX_FILESIZE, limits.max_scan_size_bytes},
      NumberSetting{CL_ENGINE_MAX_PARTITIONS, limits.max_files},
      // Keyed by MD5: a file made to collide with a clean one would inherit its verdict.
      NumberSetting{CL_ENGINE_DISABLE_CACHE, 1},
  };
  for (const NumberSetting& setting : settings) Set(engine, setting);
  cl_error_t code = cl_engine_set_str(engine, CL_ENGINE_TMPDIR, request.temporary_directory.c_str());
  if (code != CL_SUCCESS) throw LoadError(std::string("libclamav refuses its temporary folder: ") + cl_strerror(code));
  SetScanCallbacks(engine);
}

// An engine while it is built. Several may be, also at one time: each hears and measures while one of its functions runs.
class Loader {
 public:
  Loader(const LoadRequest& request, const LoadObserver& observer, Progress::Part progress, uint64_t epoch, gates::Names* behind_gates)
      : request_(request),
        facts_{epoch, cl_retver(), 0, 0, {}},
        loading_{observer, progress, behind_gates, Taken::kAll, 0, 0, nullptr, false, {}, false},
        // Without gates an engine is libclamav as it comes: what others say is compared with it.
        signatures_(request.gates.has_value()),
        engine_(cl_engine_new()) {
    try {
      quota::Watch(request.temporary_directory, request.limits.max_temporary_bytes);
    } catch (const std::system_error& error) {
      throw LoadError(std::string("The temporary folder cannot be watched: ") + error.what());
    }
    if (!engine_) throw LoadError("Not enough memory for an engine");
    ClamavEngine::Configure(engine_.get(), request);
  }

  void TakeDirectories() {
    const Working working(*this);
    if (request_.single_pass) MatchInOnePass();
    cl_engine_set_clcb_sigload(engine_.get(), OnSignature, &loading_);
    loading_.taken = loading_.behind_gates == nullptr ? Taken::kAll : Taken::kUngated;
    cl_engine_set_clcb_engine_compile_progress(engine_.get(), OnCompiled, &loading_);
    LoadIgnoreLists(engine_.get(), request_.directories);
    loading_.counts = true;
    for (const std::string& directory : request_.directories) {
      const unsigned int before = facts_.signature_count + loading_.left_out;
      cl_error_t code = LoadPath(engine_.get(), directory, &facts_.signature_count);
      if (code != CL_SUCCESS) {
        throw LoadError("Cannot load the signatures in " + directory + ": " + Reason(cl_strerror(code), listener_.messages));
      }
      if (!loading_.refused_name.empty()) {
        const bool like_gate = loading_.refused_name.starts_with(gates::kPrefix);
        throw LoadError("A signature in " + directory + (like_gate ? " is called like a gate: " : " has a name that is not UTF-8: ") +
                        loading_.refused_name);
      }
      if (facts_.signature_count + loading_.left_out == before) {
        throw LoadError(Reason("There is no signature in " + directory, listener_.messages));
      }
    }
    // What follows is no part of what was asked for.
    cl_engine_set_clcb_sigload(engine_.get(), nullptr, nullptr);
    loading_.progress.HasRead();
    LoadMarks(engine_.get(), request_.marks_directory);
  }

  // Before all else.
  void TakeGates(bool are_literals_elsewhere) {
    const Working working(*this);
    const GateFiles& files = *request_.gates;
    // libclamav refuses an empty file.
    if (files.gate_count == 0) return;
    if (request_.single_pass) MatchInOnePass();
    unsigned int gates = 0;
    const uint32_t elsewhere = are_literals_elsewhere ? files.literal_count : 0;
    LeaveOutFilter();
    LoadOwn(engine_.get(), files.gates, &gates);
    if (elsewhere == 0 && gates < files.gate_count) LoadOwn(engine_.get(), files.literals, &gates);
    if (gates + elsewhere != files.gate_count) throw LoadError("Gates are missing in " + files.gates + " and " + files.literals);
  }

  void TakeShare(size_t share) {
    const Working working(*this);
    LeaveOutFilter();
    MatchInOnePass();
    // A tree of two bytes takes half the memory, and up to three times as long.
    if (IsSeldomAsked(share)) Set(engine_.get(), {CL_ENGINE_AC_MAXDEPTH, 2});
    cl_engine_set_clcb_sigload(engine_.get(), OnSignature, &loading_);
    unsigned int beside = 0;
    loading_.taken = Taken::kAll;
    for (const std::string& support : request_.gates->supports) LoadOwn(engine_.get(), support, &beside);
    const bool of_programs = (request_.gates->program_shares >> share & 1) != 0;
    loading_.taken = of_programs ? Taken::kAllPrograms : Taken::kPrograms;
    for (const std::string& programs : request_.gates->programs) {
      cl_error_t code = LoadPath(engine_.get(), programs, &beside);
      if (code != CL_SUCCESS) throw LoadError("Cannot load the programs in " + programs + ": " + cl_strerror(code));
    }
    facts_.signature_count += loading_.programs;
    loading_.taken = Taken::kMet;
    loading_.counts = true;
    if (!of_programs) {
      LoadOwn(engine_.get(), request_.gates->shares[share], &facts_.signature_count);
      LoadOwn(engine_.get(), gates::ExtendedOf(request_.gates->shares[share]), &facts_.signature_count);
    }
    loading_.progress.HasRead();
  }

  const overlap::Patterns& patterns() const { return signatures_.patterns(); }

  // Signatures match as they do in one engine that has all patterns.
  void ActAs(const overlap::Patterns& wanted) {
    const std::string fillers = overlap::FillersFor(patterns(), wanted);
    if (fillers.empty()) return;
    const Working working(*this);
    cl_engine_set_clcb_sigload(engine_.get(), nullptr, nullptr);
    constexpr std::string_view kEnd = ".ldb";
    std::string path = request_.temporary_directory + "/overlap-XXXXXX" + std::string(kEnd);
    const int file = mkstemps(path.data(), kEnd.size());
    if (file == -1) throw LoadError("Cannot write to " + request_.temporary_directory + ": " + std::strerror(errno));
    close(file);
    unsigned int beside = 0;
    try {
      std::ofstream written(path);
      if (!(written << fillers).flush()) throw LoadError("Cannot write to " + path);
      LoadOwn(engine_.get(), path, &beside);
    } catch (const LoadError&) {
      unlink(path.c_str());
      throw;
    }
    unlink(path.c_str());
  }

  // For an engine that seldom looks, after `Compile`.
  void MoveToFile(ClamavEngine& engine) {
    pages_.MoveToFile(std::filesystem::path(request_.gates->gates).parent_path());
    engine.pages_ = std::move(pages_);
  }

  // The observer ends with the load, the engine does not.
  std::shared_ptr<ClamavEngine> Compile() {
    const Working working(*this);
    if (loading_.out_of_memory) throw LoadError("Not enough memory for an engine");
    cl_error_t code = cl_engine_compile(engine_.get());
    if (code != CL_SUCCESS) throw LoadError("Cannot compile the signatures: " + Reason(cl_strerror(code), listener_.messages));
    loading_.progress.HasCompiled();
    facts_.warnings = std::move(listener_.messages);
    cl_engine_set_clcb_sigload(engine_.get(), nullptr, nullptr);
    cl_engine_set_clcb_engine_compile_progress(engine_.get(), nullptr, nullptr);
    return std::shared_ptr<ClamavEngine>(
        new ClamavEngine(std::move(engine_), signatures_.Finish(), std::move(facts_), request_));
  }

 private:
  // What comes after it can't bring it back. The filter keeps bytes before the first ones of its signatures from the matcher, and in normalised
  // text from regular expressions as well: in an engine with few signatures these would miss what they find in one with all.
  void LeaveOutFilter() {
    unsigned int beside = 0;
    LoadOwn(engine_.get(), request_.marks_directory + "/unfiltered.cfg", &beside);
  }

  // Two ways of matching take two passes over a content. The second one is for body signatures without wildcards. The tree of the only one is
  // as deep as by default: in a deeper one libclamav passes over parts of two bytes.
  void MatchInOnePass() { Set(engine_.get(), {CL_ENGINE_AC_ONLY, 1}); }

  // Signatures whose gates are likely to hit are in smaller shares.
  bool IsSeldomAsked(size_t share) const {
    constexpr uintmax_t kBytesOften = 2 << 20;
    const std::string& logical = request_.gates->shares[share];
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(logical, error);
    const uintmax_t more = error ? 0 : std::filesystem::file_size(gates::ExtendedOf(logical), error);
    return !error && bytes + more > kBytesOften;
  }

  class Working {
   public:
    explicit Working(Loader& loader) : listening_(loader.listener_), hearing_(loader.signatures_), noting_(loader.pages_) {}

   private:
    Listening listening_;
    matcher::Hearing hearing_;
    Pages::Noting noting_;
  };

  const LoadRequest& request_;
  EngineFacts facts_;
  Listener listener_;
  Loading loading_;
  matcher::Signatures signatures_;
  // What libclamav maps for it.
  Pages pages_;
  ClamavEngine::Handle engine_;
};

std::shared_ptr<const ClamavEngine> ClamavEngine::Build(const LoadRequest& request, const LoadObserver& observer, uint64_t epoch) {
  Progress progress(observer.progress);
  Loader loader(request, observer, {progress, request.expected_signatures, 1}, epoch, nullptr);
  loader.TakeDirectories();
  return loader.Compile();
}

std::vector<std::shared_ptr<const ClamavEngine>> ClamavEngine::BuildWithGates(const LoadRequest& request, const LoadObserver& observer,
                                                                              uint64_t epoch, gates::Names& behind_gates,
                                                                              const std::function<void()>& read_literals) {
  // Most of what the first engine reads are hashes, and it reads on one thread, the others on two.
  constexpr uint64_t kWorkOfLogical = 20;
  Progress progress(observer.progress);
  std::vector<Progress::Part> parts{{progress, request.expected_signatures, 1}};
  for (const uint64_t count : behind_gates.counts()) parts.emplace_back(progress, count, kWorkOfLogical);
  std::vector<std::unique_ptr<Loader>> loaders(parts.size());
  const auto begin = [&](size_t index) -> Loader& {
    loaders[index] = std::make_unique<Loader>(request, observer, parts[index], epoch, &behind_gates);
    return *loaders[index];
  };
  const bool are_elsewhere = static_cast<bool>(read_literals);
  ForEachAtOnce(are_elsewhere ? 2 : 1, [&](size_t part) {
    if (part == 1) return read_literals();
    Loader& first = begin(0);
    first.TakeGates(are_elsewhere);
    first.TakeDirectories();
  });
  // What the first one has met is what they take.
  ForEachAtOnce(loaders.size() - 1, [&](size_t share) { begin(1 + share).TakeShare(share); });
  overlap::Patterns all;
  for (const std::unique_ptr<Loader>& loader : loaders) overlap::Join(all, loader->patterns());
  std::vector<std::shared_ptr<const ClamavEngine>> engines(loaders.size());
  ForEachAtOnce(loaders.size(), [&](size_t index) {
    loaders[index]->ActAs(all);
    const std::shared_ptr<ClamavEngine> engine = loaders[index]->Compile();
    if (index > 0) loaders[index]->MoveToFile(*engine);
    engines[index] = engine;
  });
  return engines;
}

void ClamavEngine::SetScanTime(uint32_t millis) const { Set(handle_.get(), {CL_ENGINE_MAX_SCANTIME, millis}); }

}  // namespace sluice
