// SPDX-License-Identifier: GPL-2.0-only
// Objects in a document in RTF, whose bytes are digits among other words of it; and RTF as mails of Outlook have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "bytes.h"
#include "output.h"

namespace sluice::rtf {

struct Object {
  // Of its digits.
  size_t start;
  size_t end;
  uint64_t size;
};

struct Reading {
  std::vector<Object> objects;
  // Bytes as they are, or characters by their numbers, stand among digits: libclamav passes over them.
  bool is_mixed = false;
};

// No more than one object more than asked for.
Reading Read(Bytes bytes, size_t objects_max);

streams::End Decode(Bytes digits, streams::Output& output);

// The body of a mail. Nothing: it is none.
std::optional<streams::End> UnpackBody(Bytes bytes, streams::Output& output);

}  // namespace sluice::rtf
