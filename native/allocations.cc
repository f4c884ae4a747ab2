// SPDX-License-Identifier: GPL-2.0-only
// Functions between the libraries and the C library's allocator: there is no other way to know of a failed allocation until the scan's end.
#include "allocations.h"

#include <array>
#include <cstdlib>
#include <cstring>

#include "tables.h"

namespace sluice::allocations {
namespace {

thread_local bool any_failed = false;

template <typename Result>
Result Seen(Result result) {
  if (result == nullptr) any_failed = true;
  return result;
}

// Of nothing, null is an answer.
void* Malloc(size_t size) { return size == 0 ? malloc(0) : Seen(malloc(size)); }
void* Calloc(size_t count, size_t size) { return count == 0 || size == 0 ? calloc(count, size) : Seen(calloc(count, size)); }
void* Realloc(void* old, size_t size) { return size == 0 ? realloc(old, 0) : Seen(realloc(old, size)); }
char* Strdup(const char* text) { return Seen(strdup(text)); }
char* Strndup(const char* text, size_t length) { return Seen(strndup(text, length)); }
int PosixMemalign(void** result, size_t alignment, size_t size) {
  const int error = posix_memalign(result, alignment, size);
  if (error != 0) any_failed = true;
  return error;
}
void* AlignedAlloc(size_t alignment, size_t size) { return Seen(aligned_alloc(alignment, size)); }

// libclamunrar's; it catches what they throw.
template <typename Allocate>
void* Caught(Allocate allocate) {
  try {
    return allocate();
  } catch (...) {
    any_failed = true;
    throw;
  }
}
void* New(size_t size) {
  return Caught([size] { return operator new(size); });
}
void* NewArray(size_t size) {
  return Caught([size] { return operator new[](size); });
}

const std::array kSubstitutes{
    tables::Substitute{"malloc", reinterpret_cast<void*>(Malloc)},
    tables::Substitute{"calloc", reinterpret_cast<void*>(Calloc)},
    tables::Substitute{"realloc", reinterpret_cast<void*>(Realloc)},
    tables::Substitute{"strdup", reinterpret_cast<void*>(Strdup)},
    tables::Substitute{"__strdup", reinterpret_cast<void*>(Strdup)},
    tables::Substitute{"strndup", reinterpret_cast<void*>(Strndup)},
    tables::Substitute{"posix_memalign", reinterpret_cast<void*>(PosixMemalign)},
    tables::Substitute{"aligned_alloc", reinterpret_cast<void*>(AlignedAlloc)},
    tables::Substitute{"_Znwm", reinterpret_cast<void*>(New)},
    tables::Substitute{"_Znam", reinterpret_cast<void*>(NewArray)},
};

}  // namespace

void Watch() { tables::Replace(kSubstitutes); }

void NoteFailure() { any_failed = true; }

Failures::Failures() { any_failed = false; }
bool Failures::Any() const { return any_failed; }

}  // namespace sluice::allocations
