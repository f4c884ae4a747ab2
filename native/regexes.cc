// SPDX-License-Identifier: GPL-2.0-only
// An expression becomes machine code when it is first asked: most are asked only where other parts of their signatures have matched.
#include "regexes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "first-pairs.h"
#include "tables.h"

// PCRE2's own, as pcre2.h has them. It comes with libclamav.
extern "C" {
void* pcre2_compile_8(const uint8_t* pattern, size_t length, uint32_t options, int* error, size_t* at, void* context) __attribute__((weak));
void* pcre2_compile_context_copy_8(void* context) __attribute__((weak));
void pcre2_compile_context_free_8(void* context) __attribute__((weak));
int pcre2_match_8(const void* code, const uint8_t* subject, size_t length, size_t start, uint32_t options, void* match_data, void* context)
    __attribute__((weak));
void pcre2_code_free_8(void* code) __attribute__((weak));
void* pcre2_match_context_copy_8(void* context) __attribute__((weak));
void pcre2_match_context_free_8(void* context) __attribute__((weak));
int pcre2_set_match_limit_8(void* context, uint32_t limit) __attribute__((weak));
int pcre2_set_offset_limit_8(void* context, size_t limit) __attribute__((weak));
int pcre2_set_callout_8(void* context, int (*callout)(void*, void*), void* data) __attribute__((weak));
int pcre2_jit_compile_8(void* code, uint32_t options) __attribute__((weak));
void* pcre2_jit_stack_create_8(size_t start, size_t most, void* context) __attribute__((weak));
void pcre2_jit_stack_assign_8(void* context, void* (*stack)(void*), void* data) __attribute__((weak));
void pcre2_jit_stack_free_8(void* stack) __attribute__((weak));
}

namespace sluice::regexes {
namespace {

constexpr uint32_t kComplete = 1;              // PCRE2_JIT_COMPLETE
constexpr int kNoMatch = -1;                   // PCRE2_ERROR_NOMATCH
constexpr int kLimit = -47;                    // PCRE2_ERROR_MATCHLIMIT
constexpr uint32_t kNoStartOptimize = 0x10000;  // PCRE2_NO_START_OPTIMIZE
constexpr uint32_t kUseOffsetLimit = 0x800000;  // PCRE2_USE_OFFSET_LIMIT
// Of machine code: it takes them in less time than the interpreter its own, of which libclamav allows 100,000.
constexpr uint32_t kStepsMost = 400'000;
// It passes over so many in the time of a step.
constexpr size_t kBytesForStep = 16;

// What is left for a text. Machine code counts groups by itself, and for each place anew: without this 100 KB could take it minutes.
struct Effort {
  size_t steps;
  size_t place;
};
thread_local Effort effort{};
thread_local Timed* timed = nullptr;

// As far as it is looked at here (pcre2callout(3)).
struct Callout {
  uint32_t numbers[4];
  const void* pointers[3];
  size_t length;
  size_t start;
  size_t place;
};

// Each is a step, and what was passed over since the one before is more.
int Count(void* callout, void*) {
  const size_t place = static_cast<const Callout*>(callout)->place;
  const size_t steps = 1 + (place - std::min(place, effort.place)) / kBytesForStep;
  effort.place = place;
  if (steps > effort.steps) return kLimit;
  effort.steps -= steps;
  return 0;
}
constexpr size_t kStackBytes = 32 << 10;
constexpr size_t kStackBytesMost = 1 << 20;

using Owned = std::unique_ptr<void, void (*)(void*)>;

// One for each thread. Null: machine code uses the thread's own.
void* StackOfThread(void*) {
  thread_local const Owned stack(pcre2_jit_stack_create_8(kStackBytes, kStackBytesMost, nullptr), [](void* one) { pcre2_jit_stack_free_8(one); });
  return stack.get();
}

void FreeCode(void* code) { pcre2_code_free_8(code); }
void FreeContext(void* context) { pcre2_compile_context_free_8(context); }
void FreeLimits(void* limits) { pcre2_match_context_free_8(limits); }

// What machine code is made of when an expression is first asked.
struct Source {
  std::string pattern;
  uint32_t options;
  Owned context;
};

// How long the quantifier is that begins here, without what says how greedy it is; 0: there is none. `is_open`: it may repeat more or less often.
size_t QuantifierAt(std::string_view pattern, size_t at, bool& is_open) {
  const char one = pattern[at];
  is_open = one == '*' || one == '+';
  if (is_open || one == '?') return 1;
  if (one != '{') return 0;
  const size_t end = pattern.find_first_not_of("0123456789,", at + 1);
  const bool is_quantifier = end != pattern.npos && pattern[end] == '}' && end > at + 1 && pattern[at + 1] != ',';
  is_open = is_quantifier && pattern.substr(at, end - at).find(',') != pattern.npos;
  return is_quantifier ? end + 1 - at : 0;
}

// How long the class of characters is that begins here.
size_t ClassAt(std::string_view pattern, size_t at) {
  size_t end = at + 1;
  if (end < pattern.size() && pattern[end] == '^') end++;
  if (end < pattern.size() && pattern[end] == ']') end++;
  while (end < pattern.size() && pattern[end] != ']') {
    const size_t named = pattern.substr(end).starts_with("[:") ? pattern.find(":]", end) : pattern.npos;
    if (named != pattern.npos) end = named + 1;
    else if (pattern[end] == '\\') end++;
    end++;
  }
  return std::min(end + 1, pattern.size()) - at;
}

// How long the escape is that begins here, with digits that may follow it.
size_t EscapeAt(std::string_view pattern, size_t at) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
  if (at + 1 >= pattern.size()) return 1;
  if (pattern.substr(at).starts_with("\\x{")) return std::min(pattern.find('}', at), pattern.size() - 1) + 1 - at;
  const bool is_hex = pattern[at + 1] == 'x';
  if (!is_hex && kDigits.find(pattern[at + 1]) == kDigits.npos) return 2;
  const size_t end = std::min(pattern.find_first_not_of(is_hex ? kHexDigits : kDigits, at + 2), pattern.size());
  return std::min<size_t>(end - at, 4);
}

// The same expression with a callout before each repetition of a character, and behind each.
std::string Counted(std::string_view pattern) {
  constexpr std::string_view kCallout = "(?C)";
  std::string counted;
  // Where the last character begins; nothing: a group stands there.
  std::optional<size_t> character;
  for (size_t at = 0, length = 0; at < pattern.size(); at += length) {
    bool is_open = false;
    length = QuantifierAt(pattern, at, is_open);
    if (length > 0) {
      if (at + length < pattern.size() && (pattern[at + length] == '?' || pattern[at + length] == '+')) length++;
      if (is_open && character) counted.insert(*character, kCallout);
      counted += pattern.substr(at, length);
      if (is_open) counted += kCallout;
      character.reset();
      continue;
    }
    const bool is_group = pattern[at] == '(' || pattern[at] == ')';
    if (pattern[at] == '\\') length = EscapeAt(pattern, at);
    else if (pattern[at] == '[') length = ClassAt(pattern, at);
    else length = pattern.substr(at).starts_with("(?") ? 2 : 1;
    character = is_group ? std::nullopt : std::optional(counted.size());
    counted += pattern.substr(at, length);
  }
  return counted;
}

// Null: there is none.
Owned CodeOf(const Source& source, std::string_view pattern, uint32_t options) {
  int error = 0;
  size_t at = 0;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(pattern.data());
  return {pcre2_compile_8(bytes, pattern.size(), source.options | options, &error, &at, source.context.get()), FreeCode};
}

// Null: there is none.
Owned MachineCode(const Source& source, uint32_t options) {
  Owned code = CodeOf(source, Counted(source.pattern), kNoStartOptimize | options);
  if (code && pcre2_jit_compile_8(code.get(), kComplete) != 0) code.reset();
  return code;
}

class Compiled {
 public:
  Compiled(const Source& source, void* limits) : source_(source), limits_(limits == nullptr ? nullptr : pcre2_match_context_copy_8(limits), FreeLimits) {
    if (!limits_) return;
    pcre2_jit_stack_assign_8(limits_.get(), StackOfThread, nullptr);
    pcre2_set_match_limit_8(limits_.get(), kStepsMost);
    pcre2_set_callout_8(limits_.get(), Count, nullptr);
    anywhere_ = MachineCode(source, 0);
    if (!anywhere_) return;
    first_pairs_ = FirstPairs::Of(source.pattern, source.options);
    if (first_pairs_) here_ = MachineCode(source, kAnchored);
  }

  // As the interpreter says it, if there is time: PCRE2 counts its steps for each place anew, and knows no time.
  int Interpret(const void* expression, const uint8_t* text, size_t length, size_t start, uint32_t options, void* places, void* limits) const {
    const auto match = [&](const void* code, size_t from, void* within) { return pcre2_match_8(code, text, length, from, options, places, within); };
    if (timed == nullptr) return match(expression, start, limits);
    std::call_once(is_sliced_, [this] { sliced_ = CodeOf(source_, source_.pattern, kUseOffsetLimit); });
    const Owned within(pcre2_match_context_copy_8(limits), FreeLimits);
    if (!sliced_ || !within) return match(expression, start, limits);
    constexpr std::chrono::milliseconds kShort{5};
    constexpr std::chrono::milliseconds kLong{20};
    size_t slice = 64;
    for (size_t from = start; from <= length;) {
      const auto before = std::chrono::steady_clock::now();
      if (timed->IsOver(before)) return kNoMatch;
      pcre2_set_offset_limit_8(within.get(), from + slice - 1);
      const int result = match(sliced_.get(), from, within.get());
      if (result != kNoMatch) return result;
      from += slice;
      const auto took = std::chrono::steady_clock::now() - before;
      if (took < kShort) slice *= 2;
      else if (took > kLong) slice = std::max<size_t>(1, slice / 2);
    }
    return kNoMatch;
  }

  // PCRE2 counts groups for each place by itself, so it makes no difference who goes on to the next one.
  bool Misses(const uint8_t* text, size_t length, size_t start, uint32_t options, void* places) const {
    if (!anywhere_) return false;
    effort = {kStepsMost + length / kBytesForStep, start};
    const auto misses = [&](const Owned& code, size_t at) { return pcre2_match_8(code.get(), text, length, at, options, places, limits_.get()) == kNoMatch; };
    if (!here_) return misses(anywhere_, start);
    size_t tried = 0;
    for (size_t at = first_pairs_->Next(text, length, start); at < length; at = first_pairs_->Next(text, length, at + 1)) {
      ++tried;
      if (tried > kTriedLeast && tried * kBytesForOne > at - start) return misses(anywhere_, at);
      if (!misses(here_, at)) return false;
    }
    return true;
  }

 private:
  // A call for a place takes as long as machine code for about so many bytes.
  static constexpr size_t kBytesForOne = 16;
  static constexpr size_t kTriedLeast = 8;

  const Source& source_;
  Owned limits_;
  Owned anywhere_{nullptr, FreeCode};
  // Where a match may begin, and what matches at one place alone.
  std::optional<FirstPairs> first_pairs_;
  Owned here_{nullptr, FreeCode};
  // For the interpreter, which is seldom asked for long.
  mutable std::once_flag is_sliced_;
  mutable Owned sliced_{nullptr, FreeCode};
};

bool Has(std::string_view all, char one) { return all.find(one) != std::string_view::npos; }

// Whether a test compares machine code with the interpreter for all that is in it: escapes, groups, options. Where it is asked how a group has matched, nothing may keep the first way:
// of `(?!(a|)*+a)(?!\1)` machine code says that it doesn't match an empty text.
bool IsTried(std::string_view pattern) {
  const auto character = [&](size_t at) { return at < pattern.size() ? pattern[at] : '\0'; };
  bool asks = false;
  bool keeps = false;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const char one = pattern[at];
    const char next = character(at + 1);
    if (one == '\\') {
      const bool is_letter = (next | 0x20) >= 'a' && (next | 0x20) <= 'z';
      if (is_letter && !Has("dDsSwWbBhHvVRAzZntrfeax", next)) return false;
      asks |= next >= '1' && next <= '9';
      ++at;
    } else if (one == '(' && (next == '*' || next == '?')) {
      const char kind = character(at + 2);
      const char then = character(at + 3);
      const bool is_name = kind == 'P' && Has("<=", then);
      const bool is_tried = is_name || (kind == '<' && Has("=!", then)) || Has(":=!>imsxU-^", kind);
      if (next == '*' || !is_tried) return false;
      asks |= is_name && then == '=';
      keeps |= Has("=!<>", kind);
    } else {
      keeps |= next == '+' && Has("*+?}", one);
    }
  }
  return !(asks && keeps);
}

struct Known {
  explicit Known(Source from) : source(std::move(from)) {}

  const Source source;
  // Null until it is first asked.
  std::unique_ptr<const Compiled> compiled;
};

struct Expressions {
  std::shared_mutex mutex;  // of what follows
  std::unordered_map<const void*, Known> all;
};

// Never destroyed: threads may outlive the exit of the process.
Expressions& TheExpressions() {
  static auto* expressions = new Expressions;
  return *expressions;
}

// Null: it has none. It stays where it is until the expression is freed, which nobody matches with then.
const Compiled* CompiledOf(const void* expression, void* limits) {
  auto& [mutex, all] = TheExpressions();
  Known* known = nullptr;
  {
    const std::shared_lock lock(mutex);
    const auto found = all.find(expression);
    if (found == all.end()) return nullptr;
    known = &found->second;
    if (known->compiled) return known->compiled.get();
  }
  // It takes long enough for others not to wait for it. Where two have made one, the first stays.
  auto compiled = std::make_unique<const Compiled>(known->source, limits);
  const std::unique_lock lock(mutex);
  if (!known->compiled) known->compiled = std::move(compiled);
  return known->compiled.get();
}

}  // namespace

Timed::Timed(std::chrono::steady_clock::time_point deadline) : deadline_(deadline), before_(std::exchange(timed, this)) {}
Timed::~Timed() { timed = before_; }

bool Timed::IsOver(std::chrono::steady_clock::time_point now) {
  has_ended_ = has_ended_ || now >= deadline_;
  return has_ended_;
}

void* Compile(const uint8_t* pattern, size_t length, uint32_t options, int* error, size_t* at, void* context) {
  void* const expression = pcre2_compile_8(pattern, length, options, error, at, context);
  if (expression == nullptr) return nullptr;
  constexpr size_t kUpToZero = ~size_t{0};  // PCRE2_ZERO_TERMINATED
  const auto* const text = reinterpret_cast<const char*>(pattern);
  try {
    const std::string_view whole(text, length == kUpToZero ? std::strlen(text) : length);
    if (!IsTried(whole)) return expression;
    Owned own_context(context == nullptr ? nullptr : pcre2_compile_context_copy_8(context), FreeContext);
    if (context != nullptr && !own_context) return expression;
    Source source{std::string(whole), options, std::move(own_context)};
    auto& [mutex, all] = TheExpressions();
    const std::unique_lock lock(mutex);
    all.try_emplace(expression, std::move(source));
  } catch (const std::bad_alloc&) {
    // Then it is interpreted.
  }
  return expression;
}

int Match(const void* expression, const uint8_t* text, size_t length, size_t start, uint32_t options, void* places, void* limits) {
  try {
    const Compiled* const compiled = CompiledOf(expression, limits);
    if (compiled != nullptr && compiled->Misses(text, length, start, options, places)) return kNoMatch;
    if (compiled != nullptr) return compiled->Interpret(expression, text, length, start, options, places, limits);
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
  if (pcre2_match_8 == nullptr || pcre2_jit_compile_8 == nullptr || pcre2_set_callout_8 == nullptr || pcre2_set_offset_limit_8 == nullptr) return;
  const std::array substitutes{tables::Substitute{"pcre2_compile_8", reinterpret_cast<void*>(Compile)},
                               tables::Substitute{"pcre2_match_8", reinterpret_cast<void*>(Match)},
                               tables::Substitute{"pcre2_code_free_8", reinterpret_cast<void*>(Free)}};
  tables::Replace(substitutes);
}

}  // namespace sluice::regexes
