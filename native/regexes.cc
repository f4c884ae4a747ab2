// SPDX-License-Identifier: GPL-2.0-only
// An expression becomes machine code when it is first asked: most are asked only where other parts of their signatures have matched.
#include "regexes.h"

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tables.h"

// PCRE2's own, as pcre2.h has them. It comes with libclamav.
extern "C" {
void* pcre2_compile_8(const uint8_t* pattern, size_t length, uint32_t options, int* error, size_t* at, void* context) __attribute__((weak));
int pcre2_match_8(const void* code, const uint8_t* subject, size_t length, size_t start, uint32_t options, void* match_data, void* context)
    __attribute__((weak));
void pcre2_code_free_8(void* code) __attribute__((weak));
void* pcre2_code_copy_8(const void* code) __attribute__((weak));
void* pcre2_match_context_copy_8(void* context) __attribute__((weak));
void pcre2_match_context_free_8(void* context) __attribute__((weak));
int pcre2_jit_compile_8(void* code, uint32_t options) __attribute__((weak));
void* pcre2_jit_stack_create_8(size_t start, size_t most, void* context) __attribute__((weak));
void pcre2_jit_stack_assign_8(void* context, void* (*stack)(void*), void* data) __attribute__((weak));
void pcre2_jit_stack_free_8(void* stack) __attribute__((weak));
}

namespace sluice::regexes {
namespace {

constexpr uint32_t kComplete = 1;  // PCRE2_JIT_COMPLETE
constexpr int kNoMatch = -1;       // PCRE2_ERROR_NOMATCH
constexpr uint32_t kExtended = 0x80 | 0x1000000;  // PCRE2_EXTENDED, PCRE2_EXTENDED_MORE
constexpr uint32_t kUngreedy = 0x40000;           // PCRE2_UNGREEDY
constexpr size_t kStackBytes = 32 << 10;
constexpr size_t kStackBytesMost = 1 << 20;

using Code = std::unique_ptr<void, void (*)(void*)>;

// One for each thread. Null: machine code uses the thread's own.
void* StackOfThread(void*) {
  thread_local const Code stack(pcre2_jit_stack_create_8(kStackBytes, kStackBytesMost, nullptr), [](void* one) { pcre2_jit_stack_free_8(one); });
  return stack.get();
}

// Machine code of an expression, made from a copy: others may be matching with the expression itself.
class Compiled {
 public:
  Compiled(const void* expression, void* limits)
      : code_(pcre2_code_copy_8(expression), [](void* one) { pcre2_code_free_8(one); }),
        limits_(limits == nullptr ? nullptr : pcre2_match_context_copy_8(limits), [](void* one) { pcre2_match_context_free_8(one); }) {
    is_whole_ = code_ && limits_ && pcre2_jit_compile_8(code_.get(), kComplete) == 0;
    if (is_whole_) pcre2_jit_stack_assign_8(limits_.get(), StackOfThread, nullptr);
  }

  bool Misses(const uint8_t* text, size_t length, size_t start, uint32_t options, void* places) const {
    return is_whole_ && pcre2_match_8(code_.get(), text, length, start, options, places, limits_.get()) == kNoMatch;
  }

 private:
  Code code_;
  Code limits_;
  bool is_whole_;
};

// Some of it may repeat as seldom as it can. Rather too often than never: what stands behind a backslash or in a class counts as well, and so does any expression in which blanks
// may stand between a repeat and its question mark.
bool MayBeLazy(std::string_view pattern, uint32_t options) {
  if ((options & (kExtended | kUngreedy)) != 0) return true;
  constexpr std::string_view kRepeats = "*+?}";
  constexpr std::string_view kOptions = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ^-";
  for (size_t at = pattern.find('?'); at != std::string_view::npos; at = pattern.find('?', at + 1)) {
    if (at == 0) continue;
    if (kRepeats.find(pattern[at - 1]) != std::string_view::npos) return true;
    if (pattern[at - 1] != '(') continue;
    const std::string_view set = pattern.substr(at + 1, pattern.find_first_not_of(kOptions, at + 1) - at - 1);
    if (set.find_first_of("Ux") != std::string_view::npos) return true;
  }
  return false;
}

struct Expressions {
  std::shared_mutex mutex;  // of what follows
  // Those that have machine code, or nothing until they are first asked.
  std::unordered_map<const void*, std::optional<const Compiled>> all;
};

// Never destroyed: threads may outlive the exit of the process.
Expressions& TheExpressions() {
  static auto* expressions = new Expressions;
  return *expressions;
}

// Null: it has none. It stays where it is until the expression is freed, which nobody matches with then.
const Compiled* CompiledOf(const void* expression, void* limits) {
  auto& [mutex, all] = TheExpressions();
  {
    const std::shared_lock lock(mutex);
    const auto found = all.find(expression);
    if (found == all.end()) return nullptr;
    if (found->second) return &*found->second;
  }
  // It takes long enough for others not to wait for it. Where two have made one, the first stays.
  Compiled compiled(expression, limits);
  const std::unique_lock lock(mutex);
  auto& own = all.at(expression);
  if (!own) own.emplace(std::move(compiled));
  return &*own;
}

}  // namespace

void* Compile(const uint8_t* pattern, size_t length, uint32_t options, int* error, size_t* at, void* context) {
  void* const expression = pcre2_compile_8(pattern, length, options, error, at, context);
  if (expression == nullptr) return nullptr;
  constexpr size_t kUpToZero = ~size_t{0};  // PCRE2_ZERO_TERMINATED
  const auto* const text = reinterpret_cast<const char*>(pattern);
  if (MayBeLazy({text, length == kUpToZero ? std::strlen(text) : length}, options)) return expression;
  try {
    auto& [mutex, all] = TheExpressions();
    const std::unique_lock lock(mutex);
    all.try_emplace(expression);
  } catch (const std::bad_alloc&) {
    // Then it is interpreted.
  }
  return expression;
}

int Match(const void* expression, const uint8_t* text, size_t length, size_t start, uint32_t options, void* places, void* limits) {
  try {
    const Compiled* const compiled = CompiledOf(expression, limits);
    if (compiled != nullptr && compiled->Misses(text, length, start, options, places)) return kNoMatch;
  } catch (const std::bad_alloc&) {
    // Then it is interpreted.
  }
  return pcre2_match_8(expression, text, length, start, options, places, limits);
}

void Free(void* expression) {
  {
    auto& [mutex, all] = TheExpressions();
    const std::unique_lock lock(mutex);
    all.erase(expression);
  }
  pcre2_code_free_8(expression);
}

void Watch() {
  if (pcre2_match_8 == nullptr || pcre2_code_copy_8 == nullptr || pcre2_jit_compile_8 == nullptr) return;
  const std::array substitutes{tables::Substitute{"pcre2_compile_8", reinterpret_cast<void*>(Compile)},
                               tables::Substitute{"pcre2_match_8", reinterpret_cast<void*>(Match)},
                               tables::Substitute{"pcre2_code_free_8", reinterpret_cast<void*>(Free)}};
  tables::Replace(substitutes);
}

}  // namespace sluice::regexes
