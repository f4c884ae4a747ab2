// SPDX-License-Identifier: GPL-2.0-only
// RFC 4648, wherever mails, pages, documents and scripts have it, in lines and in pieces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bytes.h"
#include "output.h"

namespace sluice::base64 {

struct Run {
  size_t start;
  size_t end;
  // Of what it says.
  uint64_t size;
  bool is_reversed;
};

inline constexpr uint8_t kNone = 0xff;
inline constexpr std::array<uint8_t, 256> kValues = [] {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<uint8_t, 256> values{};
  values.fill(kNone);
  for (size_t at = 0; at < kAlphabet.size(); at++) values[static_cast<uint8_t>(kAlphabet[at])] = static_cast<uint8_t>(at);
  return values;
}();
inline bool IsLetter(uint8_t byte) { return kValues[byte] != kNone; }

// The next letter that begins a line, or more letters than a word has.
size_t NextStart(Bytes bytes, size_t at);
// What begins here, if it says enough: its pieces as one text, and those that may be texts of their own. Returns where to look for more.
size_t Read(Bytes bytes, size_t start, std::vector<Run>& runs);

// What these letters say begins as programs, archives, documents and texts do, also when it is read from its end, or with letters before them of which
// some are spelled in another way: nothing has to announce it.
bool SaysItself(Bytes bytes, size_t start, size_t end);

streams::End Decode(Bytes data, streams::Output& output);
streams::End DecodeReversed(Bytes data, streams::Output& output);

}  // namespace sluice::base64
