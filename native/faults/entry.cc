// SPDX-License-Identifier: GPL-2.0-only
// The entry of the tests' addon: everything of the shipped one, but content may order a fault instead of its scan.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "../addon.h"
#include "../allocations.h"
#include "../engine.h"
#include "../expressions.h"
#include "../maps.h"
#include "../pages.h"
#include "../regexes.h"
#include "../scanner.h"
#include "../states.h"
#include "fault.h"
#include "memory.h"

extern "C" int cli_ac_chklsig(const char* expression, const char* end, uint32_t* matched, unsigned* count, uint64_t* distinct,
                              unsigned parse_only);
extern "C" int cli_ac_initdata(void* state, uint32_t parts, uint32_t logical, uint32_t offsets, uint8_t tracked);
extern "C" void cli_ac_freedata(void* state);
extern "C" int pcre2_match_8(const void* code, const uint8_t* subject, size_t length, size_t start, uint32_t options, void* places, void* limits)
    __attribute__((weak));
extern "C" void* pcre2_match_data_create_from_pattern_8(const void* code, void* context) __attribute__((weak));
extern "C" void pcre2_match_data_free_8(void* places) __attribute__((weak));
extern "C" size_t* pcre2_get_ovector_pointer_8(void* places) __attribute__((weak));
extern "C" void* pcre2_match_context_create_8(void* context) __attribute__((weak));
extern "C" void pcre2_match_context_free_8(void* limits) __attribute__((weak));
extern "C" int pcre2_set_match_limit_8(void* limits, uint32_t most) __attribute__((weak));

namespace {

Napi::Object AnswerOf(Napi::Env env, const sluice::faults::Outcome& outcome, uint64_t epoch) {
  Napi::Array alerts = Napi::Array::New(env, outcome.name.empty() ? 0 : 1);
  if (!outcome.name.empty()) alerts[0u] = outcome.name;
  Napi::Object answer = Napi::Object::New(env);
  answer["code"] = outcome.code;
  answer["codeText"] = outcome.code_text;
  answer["virusName"] = outcome.name.empty() ? static_cast<napi_value>(env.Null())
                                             : static_cast<napi_value>(Napi::String::New(env, outcome.name));
  answer["alerts"] = alerts;
  answer["epoch"] = static_cast<double>(epoch);
  return answer;
}

template <Napi::Value (*kScan)(const Napi::CallbackInfo&)>
Napi::Value FaultOr(const Napi::CallbackInfo& info) {
  if (info[0].IsTypedArray() && info[0].As<Napi::TypedArray>().TypedArrayType() == napi_uint8_array) {
    auto bytes = info[0].As<Napi::Uint8Array>();
    const auto* start = reinterpret_cast<const char*>(bytes.Data());
    // Held like a scan holds it: an engine with a hung scan is never freed.
    sluice::engine::Reference engine = sluice::engine::Current();
    auto order = sluice::faults::OrderIn({start, bytes.ByteLength()});
    if (engine && order) {
      auto outcome = sluice::faults::Carry(*order, engine->temporary_directory());
      if (outcome) return AnswerOf(info.Env(), *outcome, engine->facts().epoch);
    }
  }
  return kScan(info);
}

// What a text is read as, by our function and by the C library's: how many numbers, and which.
Napi::Value ReadNumbers(const Napi::CallbackInfo& info) {
  const std::string text = info[0].As<Napi::String>().Utf8Value();
  const std::string format = info[1].As<Napi::String>().Utf8Value();
  constexpr unsigned kUntouched = 4'000'000'001;
  unsigned ours[] = {kUntouched, kUntouched};
  unsigned theirs[] = {kUntouched, kUntouched};
  const int by_ours = sluice::expressions::ReadNumber(text.c_str(), format.c_str(), &ours[0], &ours[1]);
  const int by_theirs = sscanf(text.c_str(), format.c_str(), &theirs[0], &theirs[1]);
  Napi::Array answer = Napi::Array::New(info.Env());
  const double all[] = {static_cast<double>(by_ours),   static_cast<double>(ours[0]),   static_cast<double>(ours[1]),
                        static_cast<double>(by_theirs), static_cast<double>(theirs[0]), static_cast<double>(theirs[1])};
  for (uint32_t at = 0; at < std::size(all); at++) answer[at] = all[at];
  return answer;
}

// What is said of an expression by our function and by libclamav's: whether it is true, how often what it asks for has matched, and how many different ones.
Napi::Value CheckExpression(const Napi::CallbackInfo& info) {
  const std::string expression = info[0].As<Napi::String>().Utf8Value();
  auto given = info[1].As<Napi::Uint32Array>();
  uint32_t matched[64] = {};
  std::copy_n(given.Data(), std::min<size_t>(given.ElementLength(), std::size(matched)), matched);
  Napi::Array answer = Napi::Array::New(info.Env());
  uint32_t at = 0;
  for (const auto check : {sluice::expressions::Check, cli_ac_chklsig}) {
    unsigned count = 0;
    uint64_t distinct = 0;
    const int result = check(expression.c_str(), expression.c_str() + expression.size(), matched, &count, &distinct, 0);
    for (const double number : {result == 1 ? 1.0 : 0.0, static_cast<double>(count), static_cast<double>(distinct)}) answer[at++] = number;
  }
  return answer;
}

// Looks for an expression with a limit of steps in each text: what our function and PCRE2's say, and where the match begins and ends. Null: it is no expression.
Napi::Value MatchRegex(const Napi::CallbackInfo& info) {
  const std::string pattern = info[0].As<Napi::String>().Utf8Value();
  int error = 0;
  size_t where = 0;
  void* code = sluice::regexes::Compile(reinterpret_cast<const uint8_t*>(pattern.data()), pattern.size(),
                                        info[2].As<Napi::Number>().Uint32Value(), &error, &where, nullptr);
  if (code == nullptr) return info.Env().Null();
  void* limits = pcre2_match_context_create_8(nullptr);
  pcre2_set_match_limit_8(limits, info[3].As<Napi::Number>().Uint32Value());
  Napi::Array texts = info[1].As<Napi::Array>();
  Napi::Array answer = Napi::Array::New(info.Env());
  uint32_t at = 0;
  for (uint32_t index = 0; index < texts.Length(); index++) {
    auto text = texts.Get(index).As<Napi::Uint8Array>();
    for (const auto match : {sluice::regexes::Match, pcre2_match_8}) {
      void* places = pcre2_match_data_create_from_pattern_8(code, nullptr);
      const int result = match(code, text.Data(), text.ByteLength(), 0, 0, places, limits);
      answer[at++] = result;
      const size_t* pair = pcre2_get_ovector_pointer_8(places);
      for (int end = 0; end < 2; end++) answer[at++] = result > 0 ? static_cast<double>(pair[end]) : -1.0;
      pcre2_match_data_free_8(places);
    }
  }
  pcre2_match_context_free_8(limits);
  sluice::regexes::Free(code);
  return answer;
}

// Takes so many bytes (above 0), or gives the piece of this number back (0 or below, the first one is 0). For each step, where the piece begins: -1, nothing
// was to be had; -2, what was had were not zeros; -3, what is given back is not known. Pieces are filled.
Napi::Value TakeAndGiveBack(const Napi::CallbackInfo& info) {
  sluice::maps::Arena arena;
  auto steps = info[0].As<Napi::Int32Array>();
  struct Piece {
    uint8_t* start;
    size_t size;
  };
  std::vector<Piece> pieces;
  const uint8_t* origin = nullptr;
  Napi::Array answer = Napi::Array::New(info.Env());
  for (size_t at = 0; at < steps.ElementLength(); at++) {
    double said = -1;
    if (steps[at] > 0) {
      const auto size = static_cast<size_t>(steps[at]);
      auto* const start = static_cast<uint8_t*>(arena.Take(size));
      if (start != nullptr) {
        if (origin == nullptr) origin = start;
        const bool zeros = std::all_of(start, start + size, [](uint8_t byte) { return byte == 0; });
        said = zeros ? static_cast<double>(start - origin) : -2;
        std::fill_n(start, size, 1);
      }
      pieces.push_back({start, size});
    } else {
      const Piece& piece = pieces[static_cast<size_t>(-steps[at])];
      said = arena.GiveBack(piece.start, piece.size) ? static_cast<double>(piece.start - origin) : -3;
    }
    answer[static_cast<uint32_t>(at)] = said;
  }
  return answer;
}

// movePages(folder, pieces, look): maps pieces of so many pages, which are filled, gives back so many pages of each from a page of it on (three numbers for each
// piece), moves what is left to a file in the folder, looks at it, and leaves it. Calls `look` with the beginning and the end of each stretch that is left. Returns how many pages of them have lost what
// was in them.
Napi::Value MovePages(const Napi::CallbackInfo& info) {
  constexpr size_t kPage = 4096;
  auto numbers = info[1].As<Napi::Int32Array>();
  std::vector<std::pair<uint8_t*, uint8_t*>> left;
  sluice::Pages pages;
  const auto give_back = [&](uint8_t* start, size_t size) {
    pages.Forget(start, size);
    munmap(start, size);
  };
  for (size_t at = 0; at + 2 < numbers.ElementLength(); at += 3) {
    const size_t size = static_cast<size_t>(numbers[at]) * kPage;
    auto* const start = static_cast<uint8_t*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t page = 0; page < size; page += kPage) std::memcpy(start + page, &page, sizeof page);
    pages.Add(start, size);
    const size_t gap = std::min(static_cast<size_t>(numbers[at + 1]) * kPage, size);
    const size_t gap_end = std::min(gap + static_cast<size_t>(numbers[at + 2]) * kPage, size);
    if (gap_end > gap) give_back(start + gap, gap_end - gap);
    if (gap > 0) left.emplace_back(start, start + gap);
    if (size > gap_end) left.emplace_back(start + gap_end, start + size);
  }
  pages.MoveToFile(info[0].As<Napi::String>().Utf8Value());
  for (const auto& [begin, end] : left) {
    for (const volatile uint8_t* page = begin; page < end; page += kPage) static_cast<void>(*page);
  }
  pages.Leave();
  Napi::Array stretches = Napi::Array::New(info.Env());
  for (const auto& [begin, end] : left) {
    Napi::Array stretch = Napi::Array::New(info.Env());
    stretch[0u] = static_cast<double>(reinterpret_cast<uintptr_t>(begin));
    stretch[1u] = static_cast<double>(reinterpret_cast<uintptr_t>(end));
    stretches[stretches.Length()] = stretch;
  }
  info[2].As<Napi::Function>().Call({stretches});
  double lost = 0;
  for (const auto& [begin, end] : left) {
    size_t first = 0;
    std::memcpy(&first, begin, sizeof first);
    for (size_t page = 0; begin + page < end; page += kPage) {
      size_t number = 0;
      std::memcpy(&number, begin + page, sizeof number);
      if (number != first + page) lost++;
    }
    munmap(begin, static_cast<size_t>(end - begin));
  }
  return Napi::Number::New(info.Env(), lost);
}

// Whether a matcher's state that we make has what one of libclamav's has, byte by byte where there are no pointers. Of each list the numbers are one piece.
Napi::Value HasSameState(const Napi::CallbackInfo& info) {
  const auto number = [&](size_t at) { return info[at].As<Napi::Number>().Uint32Value(); };
  constexpr size_t kEach = 64;
  constexpr size_t kLists[] = {3, 4, 5};
  constexpr size_t kMatches = 6;
  constexpr size_t kOfYara = 7;
  constexpr size_t kPointers[] = {0, 3, 4, 5, kMatches, kOfYara, 8};
  const size_t logical = number(1);
  using Memory = std::array<uint64_t, 64>;
  Memory states[] = {{}, {}};
  const auto tracked = static_cast<uint8_t>(number(3));
  if (sluice::states::Make(states[0].data(), number(0), number(1), number(2), tracked) != 0) return Napi::Boolean::New(info.Env(), false);
  if (cli_ac_initdata(states[1].data(), number(0), number(1), number(2), tracked) != 0) return Napi::Boolean::New(info.Env(), false);
  bool same = true;
  for (size_t at = 0; at < states[0].size(); at++) {
    const bool is_pointer = std::find(std::begin(kPointers), std::end(kPointers), at) != std::end(kPointers);
    same = same && (is_pointer ? (states[0][at] == 0) == (states[1][at] == 0) : states[0][at] == states[1][at]);
  }
  const auto list = [&](size_t state, size_t at) { return reinterpret_cast<uint32_t**>(states[state][at]); };
  for (const size_t at : kLists) {
    for (size_t one = 0; one < logical && same; one++) {
      same = std::equal(list(0, at)[one], list(0, at)[one] + kEach, list(1, at)[one]) && list(0, at)[one] == list(0, at)[0] + one * kEach;
    }
  }
  const auto zeros = [&](size_t at, size_t size) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(states[0][at]);
    return logical == 0 || std::all_of(bytes, bytes + logical * size, [](uint8_t byte) { return byte == 0; });
  };
  same = same && zeros(kMatches, sizeof(void*)) && zeros(kOfYara, 1);
  for (Memory& state : states) cli_ac_freedata(state.data());
  return Napi::Boolean::New(info.Env(), same);
}

// Makes a matcher's state for so many logical signatures while an allocation fails, after so many that succeed: what it returns, whether one has failed and
// was noted down, and how many pieces are left of a state that could not be made.
Napi::Value MakeStateWithout(const Napi::CallbackInfo& info) {
  std::array<uint64_t, 64> state{};
  const sluice::allocations::Failures failures;
  const sluice::faults::Held held;
  sluice::faults::Allocations().FailAfter(info[0].As<Napi::Number>().Int32Value());
  const int code = sluice::states::Make(state.data(), 0, info[1].As<Napi::Number>().Uint32Value(), 0, 8);
  Napi::Object answer = Napi::Object::New(info.Env());
  answer["hasFailed"] = sluice::faults::Allocations().Stop();
  answer["code"] = code;
  answer["isNoted"] = failures.Any();
  if (code == 0) cli_ac_freedata(state.data());
  answer["left"] = code == 0 ? 0.0 : static_cast<double>(held.count());
  return answer;
}

// Calls what it is given while a map fails, after so many that succeed; whether one has failed.
template <sluice::faults::Calls& (*Of)()>
Napi::Value Without(const Napi::CallbackInfo& info) {
  Of().FailAfter(info[0].As<Napi::Number>().Int32Value());
  info[1].As<Napi::Function>().Call({});
  return Napi::Boolean::New(info.Env(), Of().Stop());
}

Napi::Object Initialize(Napi::Env env, Napi::Object exports) {
  sluice::FillExports(env, exports);
  exports["scanBuffer"] = Napi::Function::New(env, FaultOr<sluice::ScanBuffer>, "scanBuffer");
  exports["scanPlain"] = Napi::Function::New(env, FaultOr<sluice::ScanPlain>, "scanPlain");
  exports["checkExpression"] = Napi::Function::New(env, CheckExpression, "checkExpression");
  exports["matchRegex"] = Napi::Function::New(env, MatchRegex, "matchRegex");
  exports["readNumbers"] = Napi::Function::New(env, ReadNumbers, "readNumbers");
  exports["hasSameState"] = Napi::Function::New(env, HasSameState, "hasSameState");
  exports["makeStateWithout"] = Napi::Function::New(env, MakeStateWithout, "makeStateWithout");
  exports["withoutMap"] = Napi::Function::New(env, Without<sluice::faults::Maps>, "withoutMap");
  exports["withoutWrite"] = Napi::Function::New(env, Without<sluice::faults::Writes>, "withoutWrite");
  exports["movePages"] = Napi::Function::New(env, MovePages, "movePages");
  exports["takeAndGiveBack"] = Napi::Function::New(env, TakeAndGiveBack, "takeAndGiveBack");
  return exports;
}

}  // namespace

NODE_API_MODULE(sluice_faults, Initialize)
