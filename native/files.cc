// SPDX-License-Identifier: GPL-2.0-only
// Functions between the libraries and the C library's calls that take a path or make a descriptor of nothing.
#include "files.h"

#include <dirent.h>
#include <fcntl.h>
#include <iconv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>

#include "allocations.h"
#include "quota.h"
#include "tables.h"

namespace sluice::files {
namespace {

// How libclamav names the folder of a scan. Where it does otherwise, the folder is made at once.
constexpr std::string_view kFolderOfScan = "-scantemp.";

thread_local Use* current = nullptr;
// Both are seen: what makes the folder, and what would make a file in it.
bool watches = false;

bool Reach(const char* path) { return current == nullptr || current->Reach(path); }
bool Reach() { return Reach(""); }

template <typename Result>
Result Failed() {
  if constexpr (std::is_pointer_v<Result>) return nullptr;
  else return static_cast<Result>(-1);
}

// These allocate inside of the C library, and fail for other reasons as well.
template <typename Result>
Result SeenIfMemory(Result result) {
  if (result == nullptr && errno == ENOMEM) allocations::NoteFailure();
  return result;
}

// A function of which the first argument is a path, or the second one after a folder.
template <auto kCall>
struct Checked;
template <typename Result, typename... Rest, bool kNoexcept, Result (*kCall)(const char*, Rest...) noexcept(kNoexcept)>
struct Checked<kCall> {
  static Result Call(const char* path, Rest... rest) { return Reach(path) ? kCall(path, rest...) : Failed<Result>(); }
};
template <typename Result, typename... Rest, bool kNoexcept, Result (*kCall)(int, const char*, Rest...) noexcept(kNoexcept)>
struct Checked<kCall> {
  static Result Call(int folder, const char* path, Rest... rest) {
    return Reach(path) ? kCall(folder, path, rest...) : Failed<Result>();
  }
};

// The mode is there only with flags that make a file.
mode_t ModeOf(int flags, va_list rest) { return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0; }

int Open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = ModeOf(flags, rest);
  va_end(rest);
  return Reach(path) ? open(path, flags, mode) : -1;
}
int OpenAt(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = ModeOf(flags, rest);
  va_end(rest);
  return Reach(path) ? openat(folder, path, flags, mode) : -1;
}
int OpenPlain(const char* path, int flags) { return Reach(path) ? open(path, flags) : -1; }

FILE* Fopen(const char* path, const char* mode) { return Reach(path) ? SeenIfMemory(fopen(path, mode)) : nullptr; }
FILE* Fdopen(int descriptor, const char* mode) { return SeenIfMemory(fdopen(descriptor, mode)); }
DIR* Fdopendir(int descriptor) { return SeenIfMemory(fdopendir(descriptor)); }
DIR* Opendir(const char* path) {
  if (current == nullptr || !current->Forget(path)) return Reach(path) ? SeenIfMemory(opendir(path)) : nullptr;
  errno = ENOENT;
  return nullptr;
}

int Mkdir(const char* path, mode_t mode) {
  if (current != nullptr && current->Postpone(path)) return 0;
  return Reach(path) ? mkdir(path, mode) : -1;
}
int Chmod(const char* path, mode_t mode) {
  if (current != nullptr && current->Leave(path)) return 0;
  return Reach(path) ? chmod(path, mode) : -1;
}
int Rename(const char* from, const char* to) { return Reach(from) && Reach(to) ? rename(from, to) : -1; }

int Socket(int domain, int type, int protocol) { return Reach() ? socket(domain, type, protocol) : -1; }
int Pipe2(int* ends, int flags) { return Reach() ? pipe2(ends, flags) : -1; }
FILE* Tmpfile() { return Reach() ? SeenIfMemory(tmpfile()) : nullptr; }

// It reads files for most of its charsets.
iconv_t IconvOpen(const char* to, const char* from) {
  if (!Reach()) return Failed<iconv_t>();
  const iconv_t result = iconv_open(to, from);
  if (result == reinterpret_cast<iconv_t>(-1) && errno == ENOMEM) allocations::NoteFailure();
  return result;
}

// In the middle of a layer as well: what one member unpacks to may be all that a content may have.
bool MayWrite(uint64_t bytes) {
  if (current == nullptr || current->Write(bytes)) return true;
  errno = ENOSPC;
  return false;
}
ssize_t Write(int descriptor, const void* bytes, size_t count) { return MayWrite(count) ? write(descriptor, bytes, count) : -1; }
size_t Fwrite(const void* items, size_t size, size_t count, FILE* file) {
  return file == stderr || MayWrite(static_cast<uint64_t>(size) * count) ? fwrite(items, size, count, file) : 0;
}

thread_local bool nothing_left = false;

int Feof(FILE* file) { return nothing_left ? 1 : feof_unlocked(file); }

template <typename Function>
void* AddressOf(Function* function) {
  return reinterpret_cast<void*>(function);
}

const std::array kSubstitutes{
    tables::Substitute{"open", AddressOf(Open)},
    tables::Substitute{"open64", AddressOf(Open)},
    tables::Substitute{"__open_2", AddressOf(OpenPlain)},
    tables::Substitute{"__open64_2", AddressOf(OpenPlain)},
    tables::Substitute{"openat", AddressOf(OpenAt)},
    tables::Substitute{"openat64", AddressOf(OpenAt)},
    tables::Substitute{"creat", AddressOf(Checked<&creat>::Call)},
    tables::Substitute{"creat64", AddressOf(Checked<&creat>::Call)},
    tables::Substitute{"fopen", AddressOf(Fopen)},
    tables::Substitute{"fopen64", AddressOf(Fopen)},
    tables::Substitute{"fdopen", AddressOf(Fdopen)},
    tables::Substitute{"fdopendir", AddressOf(Fdopendir)},
    tables::Substitute{"opendir", AddressOf(Opendir)},
    tables::Substitute{"mkdir", AddressOf(Mkdir)},
    tables::Substitute{"mkdirat", AddressOf(Checked<&mkdirat>::Call)},
    tables::Substitute{"mkfifo", AddressOf(Checked<&mkfifo>::Call)},
    tables::Substitute{"rmdir", AddressOf(Checked<&rmdir>::Call)},
    tables::Substitute{"remove", AddressOf(Checked<&remove>::Call)},
    tables::Substitute{"unlink", AddressOf(Checked<&unlink>::Call)},
    tables::Substitute{"unlinkat", AddressOf(Checked<&unlinkat>::Call)},
    tables::Substitute{"rename", AddressOf(Rename)},
    tables::Substitute{"chmod", AddressOf(Chmod)},
    tables::Substitute{"chown", AddressOf(Checked<&chown>::Call)},
    tables::Substitute{"access", AddressOf(Checked<&access>::Call)},
    tables::Substitute{"stat", AddressOf(Checked<&stat>::Call)},
    tables::Substitute{"stat64", AddressOf(Checked<&stat64>::Call)},
    tables::Substitute{"lstat", AddressOf(Checked<&lstat>::Call)},
    tables::Substitute{"lstat64", AddressOf(Checked<&lstat64>::Call)},
    tables::Substitute{"fstatat", AddressOf(Checked<&fstatat>::Call)},
    tables::Substitute{"fstatat64", AddressOf(Checked<&fstatat64>::Call)},
    tables::Substitute{"statx", AddressOf(Checked<&statx>::Call)},
    tables::Substitute{"truncate", AddressOf(Checked<&truncate>::Call)},
    tables::Substitute{"tmpfile", AddressOf(Tmpfile)},
    tables::Substitute{"tmpfile64", AddressOf(Tmpfile)},
    tables::Substitute{"write", AddressOf(Write)},
    tables::Substitute{"fwrite", AddressOf(Fwrite)},
    tables::Substitute{"socket", AddressOf(Socket)},
    tables::Substitute{"pipe2", AddressOf(Pipe2)},
    tables::Substitute{"iconv_open", AddressOf(IconvOpen)},
    // A file is read by one thread. Locked for each byte, as in any process of many threads, libclamav's count of the signatures takes
    // three times as long as their loading.
    tables::Substitute{"fgetc", AddressOf(getc_unlocked)},
    tables::Substitute{"getc", AddressOf(getc_unlocked)},
    tables::Substitute{"feof", AddressOf(Feof)},
};

// Their path is a template that the C library writes to.
int Mkstemp(char* path) { return Reach(path) ? mkstemp(path) : -1; }
char* Mkdtemp(char* path) { return Reach(path) ? mkdtemp(path) : nullptr; }

const std::array kTemplateSubstitutes{
    tables::Substitute{"mkstemp", AddressOf(Mkstemp)},
    tables::Substitute{"mkstemp64", AddressOf(Mkstemp)},
    tables::Substitute{"mkdtemp", AddressOf(Mkdtemp)},
};

}  // namespace

void Watch() {
  const auto put = tables::Replace(kSubstitutes);
  tables::Replace(kTemplateSubstitutes);
  const auto has = [&put](std::string_view name) { return std::find(put.begin(), put.end(), name) != put.end(); };
  watches = has("mkdir") && has("opendir") && (has("open") || has("open64"));
}

bool IsScanning() { return current != nullptr; }

NothingLeft::NothingLeft() { nothing_left = true; }
NothingLeft::~NothingLeft() { nothing_left = false; }

Use::Use(const Storage& storage) : storage_(storage), wanted_(!watches), lacked_(!watches && !storage.Works()) { current = this; }

Use::~Use() { current = nullptr; }

bool Use::LackedStorage() const { return lacked_ || (wanted_ && !storage_.Works()); }

bool Use::Reach(const char* path) {
  const int before = errno;
  // Before the content has taken anything.
  if (!wanted_) lacked_ = !storage_.Works();
  wanted_ = true;
  errno = before;
  if (folder_.empty() || !std::string_view(path).starts_with(folder_)) return true;
  if (mkdir(folder_.c_str(), S_IRWXU) != 0) {
    lacked_ = true;
    return false;
  }
  folder_.clear();
  return true;
}

bool Use::Write(uint64_t bytes) {
  if (quota::Write(bytes)) return true;
  refused_ = true;
  filled_by_others_ = filled_by_others_ || quota::OverByOthers() || quota::IsShared();
  return false;
}

bool Use::Postpone(const char* path) {
  if (!watches || !folder_.empty()) return false;
  const std::string_view whole(path);
  const std::string& parent = storage_.directory();
  if (!whole.starts_with(parent) || whole.substr(parent.size(), 1) != "/") return false;
  const std::string_view name = whole.substr(parent.size() + 1);
  if (name.find('/') != name.npos || name.find(kFolderOfScan) == name.npos) return false;
  try {
    folder_ = whole;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool Use::Leave(const char* path) {
  leaving_ = !folder_.empty() && folder_ == path;
  return leaving_;
}

bool Use::Forget(const char* path) {
  if (!leaving_ || folder_ != path) return false;
  leaving_ = false;
  folder_.clear();
  return true;
}

}  // namespace sluice::files
