// SPDX-License-Identifier: GPL-2.0-only
// Packages of RPM: what libclamav passes over in them is one stream, of a cpio as a rule.
#pragma once

#include "streams.h"

namespace sluice::rpm {

bool IsRpm(streams::Bytes bytes);

struct Reading {
  streams::Bytes payload;
  // It ends before the payload begins.
  bool is_cut = false;
  // Something else stands where a header must.
  bool is_damaged = false;
};

Reading Read(streams::Bytes bytes);

}  // namespace sluice::rpm
