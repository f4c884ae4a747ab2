// SPDX-License-Identifier: GPL-2.0-only
// The C library takes the length of all that follows, and makes a stream of it, before it reads a digit.
#include "numbers.h"

#include <array>
#include <cstdarg>
#include <cstring>
#include <mutex>

#include "tables.h"

namespace sluice::numbers {
namespace {

// So many fit into an unsigned int, whatever they are.
constexpr int kDigitsMax = 9;

bool IsDigit(char letter) { return letter >= '0' && letter <= '9'; }

const std::array kSubstitutes{tables::Substitute{"sscanf", reinterpret_cast<void*>(Read)}};

// The one of this name, where headers mean another one by it.
extern "C" int ReadByLibrary(const char* text, const char* format, va_list targets) __asm__("vsscanf");

}  // namespace

int Read(const char* text, const char* format, ...) {
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

void Watch() {
  static std::once_flag once;
  std::call_once(once, [] { tables::Replace(kSubstitutes); });
}

}  // namespace sluice::numbers
