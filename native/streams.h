// SPDX-License-Identifier: GPL-2.0-only
// Unpacks what is compressed as a whole: several streams one after the other, as the tools of each format do it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "bytes.h"
#include "held.h"

namespace sluice::streams {

using Clock = std::chrono::steady_clock;

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

enum class End : uint8_t {
  kWhole,
  // The bytes end before the stream does. What was there is unpacked.
  kCut,
  kDamaged,
  // It needs a dictionary, more memory than anybody gets, or something that the library doesn't know.
  kForeign,
  kTooLarge,
  kLate,
  // Storage is short.
  kNoRoom,
};

// By the first bytes.
Kind KindOf(Bytes bytes);
// They may well be those of something else.
bool MayBeOther(Kind kind, Bytes bytes);
const char* NameOf(Kind kind);

// Where unpacked bytes go: into memory, or nowhere.
class Output {
 public:
  // Null: the bytes are only counted.
  Output(Held* held, uint64_t limit_bytes, Clock::time_point deadline) : held_(held), limit_(limit_bytes), deadline_(deadline) {}
  // They are compared with these. The first that differ are the last.
  Output(Bytes expected, Clock::time_point deadline) : held_(nullptr), limit_(expected.size()), deadline_(deadline), expected_(expected.data()) {}

  // Where the next bytes go. Empty: there may be no more, and `stopped` says why.
  std::span<uint8_t> Room();
  void Took(size_t count);
  // Of bytes that are there already. False: as of an empty room.
  bool Put(Bytes bytes);

  // Within the same bounds.
  Output Beside(Held& held) const { return Output(&held, limit_ - size_, deadline_); }

  uint64_t size() const { return size_; }
  End stopped() const { return stopped_; }
  // They are those that were expected.
  bool is_same() const { return !differs_ && size_ == limit_; }

 private:
  Held* held_;
  uint64_t limit_;
  Clock::time_point deadline_;
  const uint8_t* expected_ = nullptr;
  bool differs_ = false;
  uint64_t size_ = 0;
  End stopped_ = End::kWhole;
  uint8_t spare_[32 * 1024];
};

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
