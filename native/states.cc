// SPDX-License-Identifier: GPL-2.0-only
// Between libclamav and its making of a matcher's state: where nothing has matched yet is written many numbers at a time.
#include "states.h"

#include <clamav.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cwchar>
#include <span>

#include "allocations.h"
#include "known-version.h"
#include "tables.h"

extern "C" int cli_ac_initdata(void* state, uint32_t parts, uint32_t logical, uint32_t offsets, uint8_t tracked) __attribute__((weak));
extern "C" void cli_ac_freedata(void* state) __attribute__((weak));

namespace sluice::states {
namespace {

// Subsignatures that a logical signature can have.
constexpr size_t kEach = 64;
// "No offset" (matcher.h of libclamav, CLI_OFF_NONE).
constexpr uint32_t kNowhere = 0xfffffffe;

// As libclamav has it (cli_ac_data in matcher-ac.h), up to what is made here. Each list is one of pointers into one piece of memory, whose beginning is the first one.
struct State {
  void* parts_matrix;
  uint32_t parts;
  uint32_t logical;
  uint32_t offsets;
  uint32_t** counts;
  uint32_t** last;
  uint32_t** first;
  void** matches;
  uint8_t* of_yara;
};

template <typename Item>
Item* Allocate(size_t count, bool zeros) {
  void* const memory = zeros ? calloc(count, sizeof(Item)) : malloc(count * sizeof(Item));
  if (memory == nullptr) allocations::NoteFailure();
  return static_cast<Item*>(memory);
}

uint32_t** List(size_t count, bool zeros) {
  auto** const list = Allocate<uint32_t*>(count, false);
  auto* const numbers = Allocate<uint32_t>(count * kEach, zeros);
  if (list == nullptr || numbers == nullptr) {
    free(list);
    free(numbers);
    return nullptr;
  }
  for (size_t at = 0; at < count; at++) list[at] = numbers + at * kEach;
  static_assert(sizeof(wchar_t) == sizeof(uint32_t));
  // Of the C library, which knows how to write many at once.
  if (!zeros) wmemset(reinterpret_cast<wchar_t*>(numbers), static_cast<wchar_t>(kNowhere), count * kEach);
  return list;
}

void Free(uint32_t** list) {
  if (list != nullptr) free(*list);
  free(list);
}

// Whether libclamav's own one is as it is made here.
bool IsAsExpected() {
  if (!IsKnownVersion() || cli_ac_initdata == nullptr || cli_ac_freedata == nullptr) return false;
  constexpr uint32_t kLogical = 3;
  constexpr uint32_t kOthers = 2;
  constexpr size_t kRoom = 256;
  alignas(State) std::array<unsigned char, kRoom> memory{};
  const auto& state = *reinterpret_cast<const State*>(memory.data());
  if (cli_ac_initdata(memory.data(), kOthers, 0, kOthers, 8) != CL_SUCCESS) return false;
  bool is_so = state.parts == kOthers && state.logical == 0 && state.offsets == kOthers && state.counts == nullptr && state.last == nullptr &&
               state.first == nullptr && state.matches == nullptr && state.of_yara == nullptr;
  cli_ac_freedata(memory.data());
  memory.fill(0);
  if (!is_so || cli_ac_initdata(memory.data(), kOthers, kLogical, kOthers, 8) != CL_SUCCESS) return false;
  const auto all_are = [](uint32_t* const* list, uint32_t wanted) {
    if (list == nullptr || list[kLogical - 1] != list[0] + (kLogical - 1) * kEach) return false;
    const std::span numbers(list[0], kLogical * kEach);
    return std::all_of(numbers.begin(), numbers.end(), [&](uint32_t number) { return number == wanted; });
  };
  is_so = state.logical == kLogical && all_are(state.counts, 0) && all_are(state.last, kNowhere) && all_are(state.first, kNowhere) &&
          state.matches != nullptr && state.of_yara != nullptr;
  cli_ac_freedata(memory.data());
  return is_so;
}

}  // namespace

void Watch() {
  if (!IsAsExpected()) return;
  const std::array substitutes{tables::Substitute{"cli_ac_initdata", reinterpret_cast<void*>(Make)}};
  tables::Replace(substitutes);
}

int Make(void* data, uint32_t parts, uint32_t logical, uint32_t offsets, uint8_t tracked) {
  if (data == nullptr || logical == 0) return cli_ac_initdata(data, parts, logical, offsets, tracked);
  const int code = cli_ac_initdata(data, parts, 0, offsets, tracked);
  if (code != CL_SUCCESS) return code;
  auto& state = *static_cast<State*>(data);
  state.counts = List(logical, true);
  state.last = List(logical, false);
  state.first = List(logical, false);
  state.matches = Allocate<void*>(logical, true);
  state.of_yara = Allocate<uint8_t>(logical, true);
  if (state.counts != nullptr && state.last != nullptr && state.first != nullptr && state.matches != nullptr && state.of_yara != nullptr) {
    state.logical = logical;
    return CL_SUCCESS;
  }
  Free(state.counts);
  Free(state.last);
  Free(state.first);
  free(state.matches);
  free(state.of_yara);
  // The rest goes as if there were no logical signatures.
  cli_ac_freedata(data);
  return CL_EMEM;
}

}  // namespace sluice::states
