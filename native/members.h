// SPDX-License-Identifier: GPL-2.0-only
// Members of archives, and what lies in a content like one, by the method that packs them.
#pragma once

#include <optional>

#include "bytes.h"
#include "output.h"
#include "zip.h"

namespace sluice::members {

// The bytes of one. Nothing: by a method that nobody has a library of.
std::optional<streams::End> Unpack(Bytes data, const zip::Member& member, streams::Output& output);

}  // namespace sluice::members
