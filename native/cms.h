// SPDX-License-Identifier: GPL-2.0-only
// What is signed and lies inside of its signature, as in `smime.p7m` and `contract.pdf.p7m`: it may be in pieces.
#pragma once

#include <optional>

#include "bytes.h"
#include "output.h"

namespace sluice::cms {

// Nothing: it is no such message, or has its content elsewhere.
std::optional<streams::End> Unpack(Bytes bytes, streams::Output& output);

}  // namespace sluice::cms
