// SPDX-License-Identifier: GPL-2.0-only
// The order of confinement: what libraries would open later comes first, then Landlock, then seccomp, which ends Landlock's calls.
#include "sandbox.h"

#include <dlfcn.h>
#include <iconv.h>
#include <sys/prctl.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <thread>

#include "landlock.h"
#include "seccomp.h"

namespace sluice::sandbox {
namespace {

// The C library converts character sets by modules that it loads when a document is in one of them: there are hundreds.
// They lie beside the library itself.
std::vector<std::string> ConversionFolders() {
  std::vector<std::string> folders;
  Dl_info info;
  char resolved[PATH_MAX];
  if (dladdr(reinterpret_cast<void*>(iconv_open), &info) != 0 && realpath(info.dli_fname, resolved) != nullptr) {
    std::string library(resolved);
    folders.push_back(library.substr(0, library.rfind('/')) + "/gconv");
  }
  return folders;
}

// The list of the conversions and the time zone are read once per process, by its first thread that needs them.
void LoadAhead() {
  iconv_t conversion = iconv_open("UTF-8", "UTF-16LE");
  if (conversion != reinterpret_cast<iconv_t>(-1)) iconv_close(conversion);
  tzset();
}

}  // namespace

Confinement ConfineThread(const Folders& folders) {
  LoadAhead();
  Folders all = folders;
  for (std::string& folder : ConversionFolders()) all.readable.push_back(std::move(folder));
  // Both parts ask for it: no program that this thread might start could gain rights.
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    throw SandboxError(std::string("A thread can't give up new rights: ") + std::strerror(errno));
  }
  const int landlock = RestrictFiles(all);
  return {FilterCalls(), landlock};
}

Confinement TryConfinement() {
  Confinement reached{false, 0};
  std::exception_ptr failure;
  std::thread([&reached, &failure] {
    try {
      reached = ConfineThread({});
    } catch (const SandboxError&) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
  return reached;
}

}  // namespace sluice::sandbox
