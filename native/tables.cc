// SPDX-License-Identifier: GPL-2.0-only
// Reads a library's table of relocations, and writes over the addresses that the loader has put there.
#include "tables.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>

namespace sluice::tables {
namespace {

// What scans call into. Others of the process are left alone.
constexpr std::array<std::string_view, 13> kLibraries{"libclamav", "libclamunrar", "libxml2", "libjson-c", "libpcre2",
                                                      "libz.",     "libbz2",       "liblzma", "libzstd",   "liblz4",
                                                      "libmspack", "libtfm",       "libcrypto"};

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

bool Put(const dl_phdr_info& object, uintptr_t slot, void* function) {
  const auto page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t start = slot & ~(page_size - 1);
  auto* page = reinterpret_cast<void*>(start);
  if (mprotect(page, page_size, PROT_READ | PROT_WRITE) != 0) return false;
  *reinterpret_cast<void**>(slot) = function;
  mprotect(page, page_size, ProtectionOf(object, start, page_size));
  return true;
}

// A pointer in data may be set to something else meanwhile.
bool IsOrdinary(const Elf64_Rela& relocation, uintptr_t slot, std::string_view name) {
  if (ELF64_R_TYPE(relocation.r_info) != kPointer) return true;
  return relocation.r_addend == 0 && *reinterpret_cast<void**>(slot) == dlsym(RTLD_DEFAULT, name.data());
}

struct Replacement {
  std::span<const Substitute> substitutes;
  std::vector<std::string_view> put;
};

int Visit(dl_phdr_info* object, size_t, void* data) {
  auto* replacement = static_cast<Replacement*>(data);
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
      for (const Substitute& substitute : replacement->substitutes) {
        if (substitute.name != name || !IsOrdinary(relocation, slot, name)) continue;
        if (Put(*object, slot, substitute.function)) replacement->put.push_back(substitute.name);
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

std::vector<std::string_view> Replace(std::span<const Substitute> substitutes) {
  Replacement replacement{substitutes, {}};
#if !defined(SLUICE_UNDER_THREAD_SANITIZER)
  dl_iterate_phdr(Visit, &replacement);
#endif
  return std::move(replacement.put);
}

}  // namespace sluice::tables
