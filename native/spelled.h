// SPDX-License-Identifier: GPL-2.0-only
// Bytes that a script or a page has as numbers, digits or escapes: 0x4d,0x5a; 77,90; Chr(77)&Chr(90); 4d5a; \x4d\x5a; %4d%5a. Base64 that
// nothing announces is found on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bytes.h"
#include "output.h"

namespace sluice::spelled {

enum class Form : uint8_t {
  kBase64,
  kReversedBase64,
  // Digits without anything between.
  kDigits,
  kDecimals,
  kHexadecimals,
  // As in strings of programs.
  kEscapes,
  // Whose numbers are decimal ones.
  kDecimalEscapes,
  // As in addresses.
  kPercent,
};

struct Run {
  Form form;
  size_t start;
  size_t end;
  // It begins as what is worth a look of its own.
  bool is_known;
};

class Finder {
 public:
  explicit Finder(Bytes bytes) : bytes_(bytes) {}

  std::optional<Run> Next();

 private:
  std::optional<Run> ReadAt(size_t block);
  std::optional<Run> ReadLetters(size_t half);
  std::optional<Run> ReadEscaped(size_t sign);
  std::optional<Run> ReadAddress(size_t sign);
  std::optional<Run> ReadNumbers(size_t from);

  const Bytes bytes_;
  // Where the next block is looked at.
  size_t next_ = 0;
  // What is before has been read.
  size_t read_ = 0;
  // The same numbers may be of two kinds.
  std::optional<Run> also_;
};

streams::End Decode(Bytes run, Form form, streams::Output& output);

}  // namespace sluice::spelled
