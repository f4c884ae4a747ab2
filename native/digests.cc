// SPDX-License-Identifier: GPL-2.0-only
// What EVP_get_digestbyname() gives is fetched anew, under locks of all threads, whenever a digest is begun with it (EVP_MD_fetch(3), "Implicit fetching").
#include "digests.h"

#include <dlfcn.h>
#include <strings.h>

#include <array>

#include "tables.h"

namespace sluice::digests {
namespace {

struct Digest {
  const char* name;
  // Null: OpenSSL has none of this name, or may not use it.
  const void* fetched;
};
std::array known{Digest{"md5", nullptr}, Digest{"sha1", nullptr}, Digest{"sha256", nullptr}};

using ByName = const void* (*)(const char*);
using Fetch = const void* (*)(void*, const char*, const char*);
ByName by_name = nullptr;

const void* FetchedByName(const char* name) {
  for (const Digest& digest : known) {
    if (digest.fetched != nullptr && name != nullptr && strcasecmp(name, digest.name) == 0) return digest.fetched;
  }
  return by_name(name);
}

}  // namespace

void Watch() {
  // Of the OpenSSL that libclamav uses: Node has one of its own, which comes first.
  by_name = reinterpret_cast<ByName>(dlsym(RTLD_DEFAULT, "EVP_get_digestbyname"));
  const auto fetch = reinterpret_cast<Fetch>(dlsym(RTLD_DEFAULT, "EVP_MD_fetch"));
  if (by_name == nullptr || fetch == nullptr) return;
  // They are kept as long as the process.
  for (Digest& digest : known) digest.fetched = fetch(nullptr, digest.name, nullptr);
  const std::array substitutes{tables::Substitute{"EVP_get_digestbyname", reinterpret_cast<void*>(FetchedByName)}};
  tables::Replace(substitutes);
}

}  // namespace sluice::digests
