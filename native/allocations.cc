// SPDX-License-Identifier: GPL-2.0-only
// Puts functions of ours between these libraries and the C library's allocator, in their tables of addresses. There is no
// other way to know of a failed allocation until the scan's end, and an addon is loaded too late to come before the C library.
#include "allocations.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <iconv.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

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

// These allocate inside of the C library, and fail for other reasons as well.
template <typename Result>
Result SeenIfMemory(Result result) {
  if (result == nullptr && errno == ENOMEM) any_failed = true;
  return result;
}
FILE* Fopen(const char* path, const char* mode) { return SeenIfMemory(fopen(path, mode)); }
FILE* Fdopen(int descriptor, const char* mode) { return SeenIfMemory(fdopen(descriptor, mode)); }
DIR* Opendir(const char* path) { return SeenIfMemory(opendir(path)); }
DIR* Fdopendir(int descriptor) { return SeenIfMemory(fdopendir(descriptor)); }

iconv_t IconvOpen(const char* to, const char* from) {
  const iconv_t result = iconv_open(to, from);
  if (result == reinterpret_cast<iconv_t>(-1) && errno == ENOMEM) any_failed = true;
  return result;
}

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

struct Substitute {
  std::string_view name;
  void* function;
};

const std::array kSubstitutes{
    Substitute{"malloc", reinterpret_cast<void*>(Malloc)},
    Substitute{"calloc", reinterpret_cast<void*>(Calloc)},
    Substitute{"realloc", reinterpret_cast<void*>(Realloc)},
    Substitute{"strdup", reinterpret_cast<void*>(Strdup)},
    Substitute{"__strdup", reinterpret_cast<void*>(Strdup)},
    Substitute{"strndup", reinterpret_cast<void*>(Strndup)},
    Substitute{"posix_memalign", reinterpret_cast<void*>(PosixMemalign)},
    Substitute{"aligned_alloc", reinterpret_cast<void*>(AlignedAlloc)},
    Substitute{"fopen", reinterpret_cast<void*>(Fopen)},
    Substitute{"fopen64", reinterpret_cast<void*>(Fopen)},
    Substitute{"fdopen", reinterpret_cast<void*>(Fdopen)},
    Substitute{"opendir", reinterpret_cast<void*>(Opendir)},
    Substitute{"fdopendir", reinterpret_cast<void*>(Fdopendir)},
    Substitute{"iconv_open", reinterpret_cast<void*>(IconvOpen)},
    Substitute{"_Znwm", reinterpret_cast<void*>(New)},
    Substitute{"_Znam", reinterpret_cast<void*>(NewArray)},
};

// What scans call into. Others of the process are left alone.
constexpr std::array<std::string_view, 11> kLibraries{"libclamav",  "libclamunrar", "libxml2", "libjson-c", "libpcre2", "libz.",
                                                      "libbz2",     "liblzma",      "libmspack", "libtfm",  "libcrypto"};

// kPointer is one in a library's data: libxml2 calls its allocator through such ones.
#if defined(__x86_64__)
constexpr uint64_t kPointer = R_X86_64_64;
constexpr uint64_t kSlots[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT, kPointer};
#elif defined(__aarch64__)
constexpr uint64_t kPointer = R_AARCH64_ABS64;
constexpr uint64_t kSlots[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT, kPointer};
#else
constexpr uint64_t kPointer = 0;
constexpr uint64_t kSlots[] = {};
#endif

struct Tables {
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
  const Elf64_Rela* lists[2] = {};
  size_t sizes[2] = {};
};

Tables TablesOf(const dl_phdr_info& object) {
  Tables tables;
  for (int at = 0; at < object.dlpi_phnum; at++) {
    if (object.dlpi_phdr[at].p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const Elf64_Dyn*>(object.dlpi_addr + object.dlpi_phdr[at].p_vaddr);
    for (; entry->d_tag != DT_NULL; entry++) {
      const auto address = entry->d_un.d_ptr;
      if (entry->d_tag == DT_SYMTAB) tables.symbols = reinterpret_cast<const Elf64_Sym*>(address);
      if (entry->d_tag == DT_STRTAB) tables.names = reinterpret_cast<const char*>(address);
      if (entry->d_tag == DT_JMPREL) tables.lists[0] = reinterpret_cast<const Elf64_Rela*>(address);
      if (entry->d_tag == DT_PLTRELSZ) tables.sizes[0] = entry->d_un.d_val / sizeof(Elf64_Rela);
      if (entry->d_tag == DT_RELA) tables.lists[1] = reinterpret_cast<const Elf64_Rela*>(address);
      if (entry->d_tag == DT_RELASZ) tables.sizes[1] = entry->d_un.d_val / sizeof(Elf64_Rela);
    }
  }
  return tables;
}

bool IsSlot(uint64_t type) {
  for (const uint64_t slot : kSlots)
    if (slot == type) return true;
  return false;
}

// The protection that a page has once the library is loaded: its table of addresses may not be written to then. As the loader
// does it, the page in which that part ends stays writable: other data may follow in it.
int ProtectionOf(const dl_phdr_info& object, uintptr_t page, uintptr_t page_size) {
  for (int at = 0; at < object.dlpi_phnum; at++) {
    const auto& part = object.dlpi_phdr[at];
    if (part.p_type != PT_GNU_RELRO) continue;
    const uintptr_t start = object.dlpi_addr + part.p_vaddr;
    const uintptr_t end = start + part.p_memsz;
    if (page + page_size > start && page + page_size <= end) return PROT_READ;
  }
  return PROT_READ | PROT_WRITE;
}

void Put(const dl_phdr_info& object, uintptr_t slot, void* function) {
  const auto page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t start = slot & ~(page_size - 1);
  auto* page = reinterpret_cast<void*>(start);
  if (mprotect(page, page_size, PROT_READ | PROT_WRITE) != 0) return;
  *reinterpret_cast<void**>(slot) = function;
  mprotect(page, page_size, ProtectionOf(object, start, page_size));
}

// A pointer in data may be set to something else meanwhile.
bool IsOrdinary(const Elf64_Rela& relocation, uintptr_t slot, std::string_view name) {
  if (ELF64_R_TYPE(relocation.r_info) != kPointer) return true;
  return relocation.r_addend == 0 && *reinterpret_cast<void**>(slot) == dlsym(RTLD_DEFAULT, name.data());
}

int Visit(dl_phdr_info* object, size_t, void*) {
  const std::string_view path(object->dlpi_name);
  const std::string_view file = path.substr(path.rfind('/') + 1);
  bool wanted = false;
  for (const std::string_view library : kLibraries) wanted = wanted || file.starts_with(library);
  if (!wanted) return 0;
  const Tables tables = TablesOf(*object);
  if (tables.symbols == nullptr || tables.names == nullptr) return 0;
  for (int list = 0; list < 2; list++) {
    if (tables.lists[list] == nullptr) continue;
    for (size_t at = 0; at < tables.sizes[list]; at++) {
      const Elf64_Rela& relocation = tables.lists[list][at];
      if (!IsSlot(ELF64_R_TYPE(relocation.r_info))) continue;
      const std::string_view name(tables.names + tables.symbols[ELF64_R_SYM(relocation.r_info)].st_name);
      const uintptr_t slot = object->dlpi_addr + relocation.r_offset;
      for (const Substitute& substitute : kSubstitutes) {
        if (substitute.name == name && IsOrdinary(relocation, slot, name)) Put(*object, slot, substitute.function);
      }
    }
  }
  return 0;
}

}  // namespace

// ThreadSanitizer sees what goes through functions of ours, and not what the libraries close and free by themselves: to it, the
// next file with the same number would be the same one.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SLUICE_UNDER_THREAD_SANITIZER
#endif
#endif

void Watch() {
#if !defined(SLUICE_UNDER_THREAD_SANITIZER)
  static std::once_flag once;
  std::call_once(once, [] { dl_iterate_phdr(Visit, nullptr); });
#endif
}

Failures::Failures() { any_failed = false; }
bool Failures::Any() const { return any_failed; }

}  // namespace sluice::allocations
