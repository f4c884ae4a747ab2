// SPDX-License-Identifier: GPL-2.0-only
// What the linker puts between this addon and the C library (--wrap in binding.gyp).
#include "memory.h"

#include <sys/mman.h>
#include <sys/types.h>

#include <cerrno>

namespace sluice::faults {
namespace {

thread_local Calls allocations;
thread_local Calls maps;
thread_local Calls writes;
thread_local Held* held = nullptr;

void* Taken(void* piece) {
  if (held != nullptr && piece != nullptr) held->Take(piece);
  return piece;
}

}  // namespace

bool Calls::Fails() {
  if (left_ < 0 || left_-- > 0) return false;
  has_failed_ = true;
  errno = ENOMEM;
  return true;
}

Calls& Allocations() { return allocations; }
Calls& Maps() { return maps; }
Calls& Writes() { return writes; }

Held::Held() { held = this; }
Held::~Held() { held = nullptr; }

extern "C" {

void* __real_malloc(size_t size);
void* __real_calloc(size_t count, size_t size);
void __real_free(void* piece);
int __real_fdatasync(int descriptor);
ssize_t __real_pwrite64(int descriptor, const void* bytes, size_t size, off_t offset);
void* __real_mmap64(void* address, size_t size, int protection, int flags, int descriptor, off_t offset);

void* __wrap_malloc(size_t size) { return allocations.Fails() ? nullptr : Taken(__real_malloc(size)); }

void* __wrap_calloc(size_t count, size_t size) { return allocations.Fails() ? nullptr : Taken(__real_calloc(count, size)); }

void __wrap_free(void* piece) {
  if (held != nullptr) held->GiveBack(piece);
  __real_free(piece);
}

void* __wrap_mmap64(void* address, size_t size, int protection, int flags, int descriptor, off_t offset) {
  return maps.Fails() ? MAP_FAILED : __real_mmap64(address, size, protection, flags, descriptor, offset);
}

ssize_t __wrap_pwrite64(int descriptor, const void* bytes, size_t size, off_t offset) {
  return writes.Fails() ? -1 : __real_pwrite64(descriptor, bytes, size, offset);
}

int __wrap_fdatasync(int descriptor) { return writes.Fails() ? -1 : __real_fdatasync(descriptor); }

}  // extern "C"

}  // namespace sluice::faults
