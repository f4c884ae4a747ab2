// SPDX-License-Identifier: GPL-2.0-only
// Regular expressions of signatures, which libclamav lets PCRE2 interpret.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sluice::regexes {

// As pcre2_compile: the expression is made by it, whatever it is.
void* Compile(const uint8_t* pattern, size_t length, uint32_t options, int* error, size_t* at, void* context);

// As pcre2_match: an expression, a text and its length, where in it to begin, options, what receives the places of a match, limits. Most texts don't match, and
// that is what machine code made of the expression says (pcre2jit(3)), in a fraction of the time. All else that it says, a match or a limit that it has
// reached, is asked of the interpreter, so each match is the interpreter's: its limits count other steps. An expression that `Compile` has not made is interpreted alone.
// Machine code is made without what PCRE2 does to begin later: of `(a|)a*a` that of 10.42 says that it doesn't match "a", of others that of 10.45. FirstPairs does it
// instead.
int Match(const void* expression, const uint8_t* text, size_t length, size_t start, uint32_t options, void* places, void* limits);

// While it lives, what is interpreted on this thread ends with the deadline, and matches nothing.
class Timed {
 public:
  explicit Timed(std::chrono::steady_clock::time_point deadline);
  ~Timed();
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  // Something was not looked at to its end.
  bool has_ended() const { return has_ended_; }
  bool IsOver(std::chrono::steady_clock::time_point now);

 private:
  const std::chrono::steady_clock::time_point deadline_;
  Timed* const before_;
  bool has_ended_ = false;
};

// As pcre2_code_free.
void Free(void* expression);

// From now on libclamav uses the functions above. Not with a PCRE2 that can't make machine code.
void Watch();

}  // namespace sluice::regexes
