// SPDX-License-Identifier: GPL-2.0-only
// The members of ar archives: packages of Debian, static libraries.
#pragma once

#include <string_view>

#include "streams.h"

namespace sluice::ar {

bool IsAr(streams::Bytes bytes);

struct Member {
  streams::Bytes data;
  // The archive ends before it does.
  bool is_cut;
};

// One after the other.
class Reader {
 public:
  explicit Reader(streams::Bytes bytes);
  // False: that was the last one, or what follows is none.
  bool Next(Member& member);
  // Something follows that is no member.
  bool is_damaged() const { return is_damaged_; }

 private:
  streams::Bytes rest_;
  bool is_damaged_ = false;
};

}  // namespace sluice::ar
