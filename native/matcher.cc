// SPDX-License-Identifier: GPL-2.0-only
// Three functions that libclamav calls in place of its own.
#include "matcher.h"

#include <clamav.h>

#include <array>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "known-version.h"
#include "tables.h"

// libclamav's own; the arguments that nobody here looks at are what they are.
extern "C" int cli_ac_scanbuff(const unsigned char* buffer, uint32_t length, const char** name, void** data, void** results,
                               const void* root, void* state, uint32_t offset, int type, void** types, unsigned int mode,
                               void* context) __attribute__((weak));
extern "C" int cli_ftcode(const char* name) __attribute__((weak));
extern "C" int cli_add_content_match_pattern(void* root, const char* name, const char* hex, uintptr_t options, uintptr_t, uintptr_t type,
                                             uintptr_t offset, uintptr_t, uintptr_t, uintptr_t) __attribute__((weak));

namespace sluice::matcher {
namespace {

// Bits of the mode: it looks for signatures, and for what tells types of files.
constexpr unsigned int kSignatures = 1;
constexpr unsigned int kTypes = 2;

thread_local Signatures* hearing = nullptr;
thread_local Matching* matching = nullptr;

// It is known what the arguments are, and that all body signatures come by here.
bool IsKnown() { return IsKnownVersion() && cli_ftcode != nullptr; }

int Add(void* root, const char* name, const char* hex, uintptr_t options, uintptr_t of_type, uintptr_t type, uintptr_t offset, uintptr_t more,
        uintptr_t and_more, uintptr_t last) {
  if (hearing != nullptr && root != nullptr && hex != nullptr) {
    stretches::Signature signature{hex, static_cast<uint8_t>(options) != 0, static_cast<uint16_t>(type), {}};
    if (IsKnown() && offset != 0) signature.offset = reinterpret_cast<const char*>(offset);
    hearing->Add(root, signature);
  }
  return cli_add_content_match_pattern(root, name, hex, options, of_type, type, offset, more, and_more, last);
}

// Files of sound, of SQLite and others, by their first bytes alone, libclamav doesn't look at. Scripts and pages can begin so, and run all the same.
int TypeOf(const char* name) {
  const bool is_ignored = name != nullptr && std::string_view(name) == "CL_TYPE_IGNORED";
  return cli_ftcode(is_ignored ? "CL_TYPE_TEXT_ASCII" : name);
}

// Its first field; samples of each kind prove it at every load (literals.h).
uint32_t KindOf(const void* root) { return *static_cast<const unsigned int*>(root); }

// Whether the matcher looks at nothing that follows.
bool EndsLook(int result) {
  // Numbers of types are larger than those of errors.
  constexpr int kTypesBegin = 500;
  static const int ignored = cli_ftcode("CL_TYPE_IGNORED");
  if (result == CL_VIRUS) return !matching->all_matches;
  return result == ignored || (result != CL_CLEAN && result < kTypesBegin);
}

// What can't be gone on with isn't looked for; false: the matcher has to look at all of it.
bool Find(const void* root, const void* state, const stretches::Finder::Piece& piece, std::vector<stretches::Stretch>& found) {
  const auto finder = matching->finders.find(root);
  if (finder == matching->finders.end()) return false;
  try {
    return finder->second.Find(piece, matching->ReachOf(root, state, piece.offset), found);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

int Match(const unsigned char* buffer, uint32_t length, const char** name, void** data, void** results, const void* root, void* state,
          uint32_t offset, int type, void** types, unsigned int mode, void* context) {
  const auto match = [&](uint32_t begin, uint32_t end) {
    return cli_ac_scanbuff(buffer + begin, end - begin, name, data, results, root, state, offset + begin, type, types, mode, context);
  };
  if (matching == nullptr || root == nullptr || buffer == nullptr) return match(0, length);
  if (matching->reader != nullptr && (mode & kSignatures) != 0) {
    (*matching->reader)(KindOf(root), {buffer, length});
  }
  thread_local std::vector<stretches::Stretch> found;
  if (!Find(root, state, {{buffer, length}, offset, (mode & kTypes) != 0}, found)) return match(0, length);
  // What it says of nothing.
  const int none = match(0, 0);
  int result = none;
  for (const auto& [begin, end] : found) {
    const int one = match(begin, end);
    if (one == none) continue;
    if (EndsLook(one)) return one;
    if (result != CL_VIRUS) result = one;
  }
  return result;
}

}  // namespace

bool Watch() {
  static const bool watches = [] {
    if (cli_ac_scanbuff == nullptr) return false;
    const std::array type{tables::Substitute{"cli_ftcode", reinterpret_cast<void*>(TypeOf)}};
    if (cli_ftcode != nullptr) tables::Replace(type);
    const std::array match{tables::Substitute{"cli_ac_scanbuff", reinterpret_cast<void*>(Match)}};
    if (tables::Replace(match).empty()) return false;
    const std::array add{tables::Substitute{"cli_add_content_match_pattern", reinterpret_cast<void*>(Add)}};
    if (cli_add_content_match_pattern != nullptr) tables::Replace(add);
    return true;
  }();
  return watches;
}

void Signatures::Add(const void* root, const stretches::Signature& signature) noexcept {
  const uint32_t kind = KindOf(root);
  if (kind < patterns_.size()) {
    overlap::Measures measures = overlap::MeasuresOf(signature.hex);
    measures.has_ends = signature.offset.starts_with("EOF");
    overlap::Join(patterns_[kind], measures);
  }
  if (!wants_finders_ || !IsKnown()) return;
  try {
    finders_[root].Add(signature);
  } catch (const std::bad_alloc&) {
    out_of_memory_ = true;
  }
}

Finders Signatures::Finish() {
  if (out_of_memory_) throw std::bad_alloc();
  for (auto& [root, finder] : finders_) finder.Finish();
  return std::move(finders_);
}

Hearing::Hearing(Signatures& signatures) { hearing = &signatures; }
Hearing::~Hearing() { hearing = nullptr; }

Matching::Matching(const Finders& of_engine, const Reader* of_pieces, bool wants_all)
    : finders(of_engine), reader(of_pieces), all_matches(wants_all) {
  matching = this;
}
Matching::~Matching() { matching = nullptr; }

uint64_t& Matching::ReachOf(const void* root, const void* state, uint32_t offset) {
  uint64_t& reach = reaches_[{root, state}];
  // Another content may have its state at the same place.
  if (offset == 0) reach = 0;
  return reach;
}

}  // namespace sluice::matcher
