// SPDX-License-Identifier: GPL-2.0-only
// The probes: system calls as an attacker would make them, each harmless where it is allowed.
#include "probe.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

namespace sluice::faults {
namespace {

using Path = const char*;
// 0 or above when it was allowed, otherwise -1 with errno.
using Try = std::function<long(Path)>;

long Closed(int descriptor) { return descriptor < 0 ? -1 : close(descriptor); }

long Fork() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  return child < 0 ? -1 : waitpid(child, nullptr, 0);
}

// Where it is allowed it fails for its arguments: the program that runs shall not be replaced.
long Execute() {
  char* const none[] = {nullptr};
  execve("/", none, none);
  return errno == EACCES ? 0 : -1;
}

long AllowedIf(long result, int error) { return result >= 0 || errno == error ? 0 : -1; }

long Thread() {
  int done = 0;
  std::thread([&done] { done = 1; }).join();
  return done - 1;
}

long ReadOther() {
  char byte = 0;
  iovec into{&byte, 1};
  iovec from{&byte, 1};
  // Of itself: what anybody may read, if the call is allowed at all.
  return process_vm_readv(getpid(), &into, 1, &from, 1, 0);
}

long List(Path path) {
  DIR* folder = opendir(path);
  if (folder == nullptr) return -1;
  const bool any = readdir(folder) != nullptr;
  closedir(folder);
  return any ? 0 : -1;
}

long Create(Path path) { return Closed(open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600)); }

long Library(Path path) {
  errno = EACCES;
  return dlopen(path, RTLD_NOW) == nullptr ? -1 : 0;
}

const std::map<std::string, Try>& Probes() {
  static const auto* probes = new std::map<std::string, Try>{
      {"socket", [](Path) { return Closed(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }},
      {"socket-unix", [](Path) { return Closed(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }},
      {"connect", [](Path) { return AllowedIf(connect(-1, nullptr, 0), EBADF); }},
      {"sendto", [](Path) { return AllowedIf(sendto(-1, nullptr, 0, 0, nullptr, 0), EBADF); }},
      {"accept", [](Path) { return AllowedIf(accept4(-1, nullptr, nullptr, 0), EBADF); }},
      {"execve", [](Path) { return Execute(); }},
      {"fork", [](Path) { return Fork(); }},
      {"thread", [](Path) { return Thread(); }},
      {"open", [](Path path) { return Closed(open(path, O_RDONLY | O_CLOEXEC)); }},
      {"list", [](Path path) { return List(path); }},
      {"create", [](Path path) { return Create(path); }},
      {"append", [](Path path) { return Closed(open(path, O_WRONLY | O_APPEND | O_CLOEXEC)); }},
      {"truncate", [](Path path) { return truncate(path, 0); }},
      {"unlink", [](Path path) { return unlink(path); }},
      {"mkdir", [](Path path) { return mkdir(path, 0700); }},
      {"symlink", [](Path path) { return symlink("/etc", path); }},
      {"chmod", [](Path path) { return chmod(path, 0777); }},
      {"dlopen", [](Path path) { return Library(path); }},
      {"ptrace", [](Path) { return AllowedIf(ptrace(PTRACE_PEEKDATA, 0, nullptr, nullptr), ESRCH); }},
      {"process_vm_readv", [](Path) { return ReadOther(); }},
      {"kill", [](Path) { return kill(getppid(), 0); }},
      {"tgkill-other", [](Path) { return syscall(SYS_tgkill, getppid(), getppid(), 0); }},
      {"prlimit-other", [](Path) { return AllowedIf(syscall(SYS_prlimit64, getppid(), 7, nullptr, nullptr), 0); }},
      {"io_uring_setup", [](Path) { return AllowedIf(syscall(SYS_io_uring_setup, 0, nullptr), EFAULT); }},
      {"keyctl", [](Path) { return AllowedIf(syscall(SYS_keyctl, 9999, 0, 0, 0, 0), EOPNOTSUPP); }},
      {"bpf", [](Path) { return AllowedIf(syscall(SYS_bpf, 9999, nullptr, 0), EINVAL); }},
      {"userfaultfd", [](Path) { return AllowedIf(syscall(SYS_userfaultfd, ~0U), EINVAL); }},
      {"perf_event_open", [](Path) { return AllowedIf(syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0), EFAULT); }},
      {"mount", [](Path) { return AllowedIf(mount("none", "/nowhere", "tmpfs", 0, nullptr), ENOENT); }},
      {"unshare", [](Path) { return unshare(0); }},
      // Not by the C library, which would make all threads of the process do it.
      {"setuid", [](Path) { return syscall(SYS_setresuid, -1, -1, -1); }},
      {"pidfd_open", [](Path) { return Closed(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))); }},
      {"memfd_create", [](Path) { return Closed(memfd_create("probe", MFD_CLOEXEC)); }},
      {"terminal-input", [](Path) { return AllowedIf(ioctl(-1, TIOCSTI, ""), EBADF); }},
  };
  return *probes;
}

}  // namespace

std::string ErrorName(int number) {
  const char* name = strerrorname_np(number);
  return name == nullptr ? std::to_string(number) : name;
}

std::string Probe(const std::string& what, const std::string& path) {
  const auto found = Probes().find(what);
  if (found == Probes().end()) return "unknown";
  errno = 0;
  return found->second(path.c_str()) >= 0 ? "OK" : ErrorName(errno);
}

}  // namespace sluice::faults
