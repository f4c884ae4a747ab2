// SPDX-License-Identifier: GPL-2.0-only
// An expression becomes machine code when it is first asked: most are asked only where other parts of their signatures have matched.
#include "regexes.h"

#include <array>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "tables.h"

// PCRE2's own, as pcre2.h has them. It comes with libclamav.
extern "C" {
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

struct Expressions {
  std::shared_mutex mutex;  // of what follows
  std::unordered_map<const void*, const Compiled> all;
};

// Never destroyed: threads may outlive the exit of the process.
Expressions& TheExpressions() {
  static auto* expressions = new Expressions;
  return *expressions;
}

// It stays where it is until the expression is freed, which nobody matches with then.
const Compiled& CompiledOf(const void* expression, void* limits) {
  auto& [mutex, all] = TheExpressions();
  {
    const std::shared_lock lock(mutex);
    if (const auto found = all.find(expression); found != all.end()) return found->second;
  }
  // It takes long enough for others not to wait for it. Where two have made one, the first stays.
  Compiled compiled(expression, limits);
  const std::unique_lock lock(mutex);
  return all.try_emplace(expression, std::move(compiled)).first->second;
}

}  // namespace

int Match(const void* expression, const uint8_t* text, size_t length, size_t start, uint32_t options, void* places, void* limits) {
  try {
    if (CompiledOf(expression, limits).Misses(text, length, start, options, places)) return kNoMatch;
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
  const std::array substitutes{tables::Substitute{"pcre2_match_8", reinterpret_cast<void*>(Match)},
                               tables::Substitute{"pcre2_code_free_8", reinterpret_cast<void*>(Free)}};
  tables::Replace(substitutes);
}

}  // namespace sluice::regexes
