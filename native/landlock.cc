// SPDX-License-Identifier: GPL-2.0-only
// Landlock by its three system calls. Names and numbers are written out: headers older than the kernel lack some of them.
#include "landlock.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace sluice::sandbox {
namespace {

// Rights over files, each a bit; from version 2 on there is kRefer, from 3 on kTruncate, from 5 on kDeviceCommands.
constexpr uint64_t kWriteFile = 1 << 1;
constexpr uint64_t kReadFile = 1 << 2;
constexpr uint64_t kReadDirectory = 1 << 3;
constexpr uint64_t kRemoveDirectory = 1 << 4;
constexpr uint64_t kRemoveFile = 1 << 5;
constexpr uint64_t kMakeDirectory = 1 << 7;
constexpr uint64_t kMakeFile = 1 << 8;
constexpr uint64_t kOfVersion1 = (1 << 13) - 1;
constexpr uint64_t kRefer = 1 << 13;
constexpr uint64_t kTruncate = 1 << 14;
constexpr uint64_t kDeviceCommands = 1 << 15;

constexpr uint64_t kBindAndConnectTcp = 3;     // version 4
constexpr uint64_t kAbstractUnixSockets = 1;   // version 6
constexpr uint32_t kAskVersion = 1;
constexpr int kBeneathPath = 1;

// An older kernel takes the longer structure as long as what it does not know is zero.
struct Ruleset {
  uint64_t files;
  uint64_t network;
  uint64_t scoped;
};

struct __attribute__((packed)) Rule {
  uint64_t allowed;
  int32_t folder;
};

class Descriptor {
 public:
  explicit Descriptor(long number) : number_(static_cast<int>(number)) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void Fail(const std::string& what) {
  throw SandboxError("Landlock " + what + ": " + std::strerror(errno));
}

uint64_t HandledFiles(long version) {
  return kOfVersion1 | (version >= 2 ? kRefer : 0) | (version >= 3 ? kTruncate : 0) |
         (version >= 5 ? kDeviceCommands : 0);
}

void Allow(const Descriptor& ruleset, const std::string& path, uint64_t rights, bool must_exist) {
  Descriptor folder(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder.number() < 0) {
    if (!must_exist && errno == ENOENT) return;
    Fail("cannot open " + path);
  }
  const Rule rule{rights, folder.number()};
  if (syscall(SYS_landlock_add_rule, ruleset.number(), kBeneathPath, &rule, 0) != 0) Fail("refuses " + path);
}

}  // namespace

int RestrictFiles(const Folders& folders) {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, kAskVersion);
  if (version < 1) return 0;
  const uint64_t handled = HandledFiles(version);
  const Ruleset rules{handled, version >= 4 ? kBindAndConnectTcp : 0, version >= 6 ? kAbstractUnixSockets : 0};
  Descriptor ruleset(syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0));
  if (ruleset.number() < 0) Fail("makes no rules");
  constexpr uint64_t kRead = kReadFile | kReadDirectory;
  constexpr uint64_t kWrite =
      kRead | kWriteFile | kRemoveDirectory | kRemoveFile | kMakeDirectory | kMakeFile | kRefer | kTruncate;
  for (const std::string& path : folders.writable) Allow(ruleset, path, kWrite & handled, true);
  for (const std::string& path : folders.readable) Allow(ruleset, path, kRead, false);
  if (syscall(SYS_landlock_restrict_self, ruleset.number(), 0) != 0) Fail("does not restrict the thread");
  return static_cast<int>(version);
}

}  // namespace sluice::sandbox
