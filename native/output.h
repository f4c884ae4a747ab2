// SPDX-License-Identifier: GPL-2.0-only
// Where bytes go that are unpacked, and why there are no more.
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

  // Of the packed bytes so many were needed. As many as came out, if nobody has said.
  void Needed(size_t count) { needed_ = count; }
  uint64_t taken() const { return needed_.value_or(size_); }

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
  std::optional<size_t> needed_;
  End stopped_ = End::kWhole;
  uint8_t spare_[32 * 1024];
};

}  // namespace sluice::streams
