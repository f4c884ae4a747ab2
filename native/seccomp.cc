// SPDX-License-Identifier: GPL-2.0-only
// The filter: what is on the list is allowed, what only an attacker does ends the process, anything else fails with EPERM.
#include "seccomp.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace sluice::sandbox {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

// Found by tracing scans of every file type and the life of a Node thread; related calls were added. They concern memory,
// files by path (Landlock says which), open descriptors, waiting, time, and facts about the process itself.
// The older forms of a call (open beside openat) exist on x86-64 alone.
constexpr int kAllowed[] = {
    // memory
    SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_pkey_mprotect, SYS_madvise, SYS_brk, SYS_msync, SYS_mincore,
    SYS_membarrier,
    // descriptors
    SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev, SYS_preadv, SYS_pwritev, SYS_lseek, SYS_close,
    SYS_fstat, SYS_dup, SYS_dup3, SYS_fcntl, SYS_ftruncate, SYS_fallocate, SYS_fsync, SYS_fdatasync, SYS_flock,
    SYS_getdents64, SYS_fstatfs, SYS_fadvise64, SYS_pipe2, SYS_eventfd2,
    // files
    SYS_openat, SYS_newfstatat, SYS_statx, SYS_statfs, SYS_faccessat, SYS_faccessat2, SYS_readlinkat, SYS_getcwd,
    SYS_mkdirat, SYS_unlinkat, SYS_renameat, SYS_renameat2, SYS_truncate, SYS_umask,
    // waiting
    SYS_futex, SYS_ppoll, SYS_pselect6, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2,
    SYS_nanosleep, SYS_clock_nanosleep, SYS_sched_yield, SYS_restart_syscall,
    // time and facts
    SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday, SYS_times, SYS_getrusage, SYS_sysinfo, SYS_uname, SYS_getrandom,
    SYS_getpid, SYS_getppid, SYS_gettid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getrlimit,
    SYS_sched_getaffinity, SYS_sched_getparam, SYS_sched_getscheduler, SYS_getpriority, SYS_getcpu,
    // the thread's own life
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_set_robust_list, SYS_rseq,
    SYS_set_tid_address, SYS_exit, SYS_exit_group,
#if defined(__x86_64__)
    SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_mkdir, SYS_rmdir, SYS_unlink, SYS_rename, SYS_dup2,
    SYS_getdents, SYS_poll, SYS_select, SYS_epoll_wait, SYS_time, SYS_pause,
#endif
};

// No library tries these on a scan thread: code that does has taken it over.
constexpr int kDeadly[] = {
    SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_bpf, SYS_userfaultfd,
    SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_mount, SYS_umount2, SYS_pivot_root,
    SYS_chroot, SYS_setns, SYS_unshare, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_perf_event_open,
    SYS_open_by_handle_at, SYS_reboot, SYS_pidfd_getfd,
};

// Fork, vfork and a new process are the same call as a new thread, but for one flag. No new thread gets namespaces.
constexpr uint32_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                                 CLONE_NEWNET;
constexpr uint32_t kCommands[] = {TCGETS, FIONREAD, FIOCLEX, FIONBIO, TIOCGWINSZ};
constexpr uint32_t kNameOfMemory = 0x53564d41;  // PR_SET_VMA
constexpr uint32_t kProcessCommands[] = {PR_SET_NAME, PR_GET_NAME, kNameOfMemory};

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr uint32_t kKill = SECCOMP_RET_KILL_PROCESS;
constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
// The C library then takes the older call, whose flags can be read: those of this one lie in memory.
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

// Of the 64 bits of an argument a filter reads 32 at a time; both machines keep the low ones first.
constexpr uint32_t LowOf(int argument) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args)) + 8 * static_cast<uint32_t>(argument);
}
constexpr uint32_t HighOf(int argument) { return LowOf(argument) + 4; }

class Program {
 public:
  void Load(uint32_t offset) { Add(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0); }
  void Return(uint32_t action) { Add(BPF_RET | BPF_K, action, 0, 0); }
  void ReturnIfEqual(uint32_t value, uint32_t action) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    Return(action);
  }
  void ReturnIfNot(uint32_t value, uint32_t action) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
    Return(action);
  }
  void ReturnIfAnyBit(uint32_t bits, uint32_t action) {
    Add(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
    Return(action);
  }
  void ReturnIfNoBit(uint32_t bits, uint32_t action) {
    Add(BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0);
    Return(action);
  }
  // What `judge` adds must end in a return; other calls jump over it.
  template <typename Judge>
  void ForCall(int number, Judge judge) {
    const size_t at = code_.size();
    Add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 0);
    judge();
    code_[at].jf = static_cast<uint8_t>(code_.size() - at - 1);
  }

  sock_fprog AsFilter() { return {static_cast<unsigned short>(code_.size()), code_.data()}; }

 private:
  void Add(int code, uint32_t value, uint8_t if_true, uint8_t if_false) {
    code_.push_back({static_cast<uint16_t>(code), if_true, if_false, value});
  }
  std::vector<sock_filter> code_;
};

#if defined(__x86_64__) || defined(__aarch64__)
Program Filter() {
  Program filter;
  filter.Load(offsetof(seccomp_data, arch));
  filter.ReturnIfNot(kArchitecture, kKill);
  filter.Load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
  constexpr uint32_t kOtherNumbers = 0x40000000;  // the x32 way into the same calls
  filter.ReturnIfAnyBit(kOtherNumbers, kKill);
#endif
  for (int number : kAllowed) filter.ReturnIfEqual(static_cast<uint32_t>(number), kAllow);
  for (int number : kDeadly) filter.ReturnIfEqual(static_cast<uint32_t>(number), kKill);
  filter.ReturnIfEqual(SYS_clone3, kUnknown);
  filter.ForCall(SYS_clone, [&filter] {
    filter.Load(LowOf(0));
    filter.ReturnIfNoBit(CLONE_THREAD, kRefuse);
    filter.ReturnIfAnyBit(kNamespaces, kRefuse);
    filter.Return(kAllow);
  });
  // A signal to a thread of this process: abort() sends one.
  filter.ForCall(SYS_tgkill, [&filter] {
    filter.Load(LowOf(0));
    filter.ReturnIfEqual(static_cast<uint32_t>(getpid()), kAllow);
    filter.Return(kRefuse);
  });
  // The process's own limits, to be read.
  filter.ForCall(SYS_prlimit64, [&filter] {
    for (uint32_t must_be_zero : {LowOf(0), LowOf(2), HighOf(2)}) {
      filter.Load(must_be_zero);
      filter.ReturnIfNot(0, kRefuse);
    }
    filter.Return(kAllow);
  });
  filter.ForCall(SYS_ioctl, [&filter] {
    filter.Load(LowOf(1));
    for (uint32_t command : kCommands) filter.ReturnIfEqual(command, kAllow);
    filter.Return(kRefuse);
  });
  filter.ForCall(SYS_prctl, [&filter] {
    filter.Load(LowOf(0));
    for (uint32_t command : kProcessCommands) filter.ReturnIfEqual(command, kAllow);
    filter.Return(kRefuse);
  });
  filter.Return(kRefuse);
  return filter;
}
#endif

}  // namespace

bool FilterCalls() {
#if defined(__x86_64__) || defined(__aarch64__)
  Program program = Filter();
  sock_fprog filter = program.AsFilter();
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0) return true;
  // A kernel without filters, or a container that keeps them to itself.
  if (errno == ENOSYS || errno == EINVAL || errno == EPERM) return false;
  throw SandboxError(std::string("seccomp does not filter the thread: ") + std::strerror(errno));
#else
  return false;
#endif
}

}  // namespace sluice::sandbox
