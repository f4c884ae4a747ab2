// Scans in which one allocation fails, the nth: infected content is found or has no verdict, and is never clean.
// usage: memory MARKS SIGNATURES STEP LAST FILE...   FAILING=20: and so many after it; TRACE=1: says where LAST is. Each scan is a process of its own, since some end in a crash.
#include <clamav.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <string>

#include "../../native/engine-set.h"

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace {

// Of this thread: allocations until one fails; negative: none does. And how many fail from there on.
thread_local long until_failure = -1;
long failing = 1;
thread_local long failed = 0;
thread_local long counted = 0;
// With TRACE=1 each failure says where it was.
bool traces = false;

bool Fails() {
  counted++;
  if (until_failure < 0) return false;
  if (until_failure > 0) {
    until_failure--;
    return false;
  }
  if (failed++ >= failing) return false;
  if (traces) {
    void* frames[40];
    backtrace_symbols_fd(frames, backtrace(frames, 40), STDOUT_FILENO);
  }
  errno = ENOMEM;
  return true;
}

enum Outcome : int { kInfected, kError, kClean };

const char* const kNames[] = {"infected", "error", "CLEAN"};

Outcome OutcomeOf(const sluice::EngineSet& engine, const std::string& content) {
  try {
    const sluice::ScanReport report = engine.Scan(content.data(), content.size());
    if (report.code == CL_VIRUS && report.virus_name && !report.virus_name->starts_with("Heuristics.")) return kInfected;
    return report.code == CL_CLEAN && report.alerts.empty() ? kClean : kError;
  } catch (const std::bad_alloc&) {
    // The border to JavaScript makes a failed scan of it.
    return kError;
  }
}

std::string ReadFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

// In the place of the C library's own, for everything that this process loads.
extern "C" {
void* malloc(size_t size) { return Fails() ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return Fails() ? nullptr : __libc_calloc(count, size); }
void* realloc(void* old, size_t size) { return Fails() ? nullptr : __libc_realloc(old, size); }
void* memalign(size_t alignment, size_t size) { return Fails() ? nullptr : __libc_memalign(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** result, size_t alignment, size_t size) {
  void* memory = memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *result = memory;
  return 0;
}
}

int main(int count, char** arguments) {
  if (count < 6) return 2;
  const long step = std::atol(arguments[3]);
  const long last = std::atol(arguments[4]);
  traces = std::getenv("TRACE") != nullptr;
  if (const char* number = std::getenv("FAILING")) failing = std::atol(number);
  // Its first call allocates.
  void* frame = nullptr;
  backtrace(&frame, 1);
  void* shared = mmap(nullptr, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  // How many allocations a scan has made.
  auto* needed = static_cast<volatile long*>(shared);
  char folder[] = "/tmp/sluice-memory-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 2;
  sluice::ClamavEngine::InitializeLibrary();
  const sluice::LoadRequest request{
      {arguments[2]}, folder, arguments[1], {200 << 20, 400 << 20, 10'000, 17, 60'000}, true, true, 1, "", "clean", {}};
  const sluice::LoadObserver observer{[](double) {}, [] {}};
  const auto engine = sluice::EngineSet::Build(request, observer, 1);
  // As every engine is tried before it serves; what libraries do once for a kind of content, they do in each child.
  const std::string harmless = "a few harmless words";
  if (OutcomeOf(*engine, harmless) != kClean) return 2;
  const auto scan = [&](const std::string& content, long nth) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      // What crashes says so by its signal.
      if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(9);
      alarm(20);
      counted = 0;
      until_failure = nth;
      const Outcome outcome = OutcomeOf(*engine, content);
      until_failure = -1;
      *needed = counted;
      _exit(outcome);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) std::exit(2);
    // What a crash leaves behind: the next process would give its own files the same names.
    for (const auto& left : std::filesystem::directory_iterator(folder)) std::filesystem::remove_all(left);
    if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
    const int code = WEXITSTATUS(status);
    return code > kClean ? "exit " + std::to_string(code) : std::string(kNames[code]);
  };
  int wrong = 0;
  for (int at = 5; at < count; at++) {
    const std::string content = ReadFile(arguments[at]);
    if (scan(content, -1) != kNames[kInfected]) {
      std::printf("%s is not found even with all memory\n", arguments[at]);
      wrong++;
      continue;
    }
    const long all = *needed;
    std::map<std::string, int> outcomes;
    for (long nth = traces ? last : 0; nth < std::min(all, traces ? last + 1 : last); nth += step) {
      const std::string outcome = scan(content, nth);
      outcomes[outcome]++;
      if (outcome != kNames[kClean]) continue;
      std::printf("%s is called clean when allocation %ld fails\n", arguments[at], nth);
      wrong++;
    }
    std::printf("%s: %ld allocations;", std::filesystem::path(arguments[at]).filename().c_str(), all);
    for (const auto& [outcome, times] : outcomes) std::printf(" %s %d", outcome.c_str(), times);
    std::printf("\n");
  }
  std::filesystem::remove_all(folder);
  return wrong == 0 ? 0 : 1;
}
