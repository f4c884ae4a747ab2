// SPDX-License-Identifier: GPL-2.0-only
// The C library takes the length of all that follows, and makes a stream of it, before it reads a digit. In most layers nothing has matched that most
// expressions ask for.
#include "expressions.h"

#include <array>
#include <cstdarg>
#include <cstring>
#include <span>

#include "tables.h"

// libclamav's own.
extern "C" int cli_ac_chklsig(const char* expression, const char* end, uint32_t* matched, unsigned* count, uint64_t* distinct,
                              unsigned parse_only) __attribute__((weak));

namespace sluice::expressions {
namespace {

// So many fit into an unsigned int, whatever they are.
constexpr int kDigitsMax = 9;

bool IsDigit(char letter) { return letter >= '0' && letter <= '9'; }

constexpr int kSubsignatures = 64;

bool AnyOf(const uint32_t* matched) {
  uint32_t any = 0;
  for (int index = 0; index < kSubsignatures; index++) any |= matched[index];
  return any != 0;
}

// `0=0` and `0<2` are true where nothing has matched.
bool CanBeTrueOfNothing(const char* expression, const char* end) {
  const size_t length = end - expression;
  return std::memchr(expression, '=', length) != nullptr || std::memchr(expression, '<', length) != nullptr;
}

const std::array kSubstitutes{tables::Substitute{"sscanf", reinterpret_cast<void*>(ReadNumber)},
                              tables::Substitute{"cli_ac_chklsig", reinterpret_cast<void*>(Check)}};

// The one of this name, where headers mean another one by it.
extern "C" int ReadByLibrary(const char* text, const char* format, va_list targets) __asm__("vsscanf");

}  // namespace

int ReadNumber(const char* text, const char* format, ...) {
  va_list targets;
  va_start(targets, format);
  int read;
  unsigned number = 0;
  int digits = 0;
  if (std::strcmp(format, "%u") == 0) {
    for (; digits <= kDigitsMax && IsDigit(text[digits]); digits++) number = number * 10 + static_cast<unsigned>(text[digits] - '0');
  }
  if (digits > 0 && digits <= kDigitsMax) {
    *va_arg(targets, unsigned*) = number;
    read = 1;
  } else {
    read = ReadByLibrary(text, format, targets);
  }
  va_end(targets);
  return read;
}

int Check(const char* expression, const char* end, uint32_t* matched, unsigned* count, uint64_t* distinct, unsigned parse_only) {
  if (parse_only == 0 && matched != nullptr && !AnyOf(matched) && !CanBeTrueOfNothing(expression, end)) return 0;
  return cli_ac_chklsig(expression, end, matched, count, distinct, parse_only);
}

void Watch() {
  const std::span all(kSubstitutes);
  // A libclamav that doesn't show its own is left with it.
  tables::Replace(cli_ac_chklsig == nullptr ? all.first(1) : all);
}

}  // namespace sluice::expressions
