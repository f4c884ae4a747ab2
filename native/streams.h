// SPDX-License-Identifier: GPL-2.0-only
// Unpacks what is compressed as a whole: several streams one after the other, as the tools of each format do it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "bytes.h"
#include "output.h"

namespace sluice::streams {

enum class Kind : uint8_t {
  kNone,
  kGzip,
  kBzip2,
  kXz,
  kZstd,
  kLz4,
  kLz4Legacy,
  // A frame that zstd and lz4 pass over.
  kSkippable,
  kLzma,
  kLzip,
};

// By the first bytes.
Kind KindOf(Bytes bytes);
// They may well be those of something else.
bool MayBeOther(Kind kind, Bytes bytes);
const char* NameOf(Kind kind);

struct Unpacked {
  End end;
  // Bytes that belong to streams.
  size_t consumed = 0;
  size_t streams = 0;
  // Zeros lie between some of them.
  bool padded = false;
};

// All streams of the kind. What follows the last one, and begins none, is passed over.
Unpacked Unpack(Kind kind, Bytes bytes, Output& output);

// What the only stream of an .xz file unpacks to, by its index. Nothing: there is no index, or something that libclamav may not unpack.
std::optional<uint64_t> SizeInXz(Bytes bytes);

// One stream without a header of its own. Of LZMA that has five bytes of properties, and how much there is; UINT64_MAX: its end is marked.
End UnpackDeflate(Bytes bytes, Output& output);
End UnpackZlib(Bytes bytes, Output& output);
// Its first bytes. Returns how many there are.
size_t BeginZlib(Bytes bytes, std::span<uint8_t> first);
End UnpackLzma(Bytes properties, uint64_t size, Bytes bytes, Output& output);

}  // namespace sluice::streams
