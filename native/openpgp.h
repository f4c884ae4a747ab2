// SPDX-License-Identifier: GPL-2.0-only
// Messages of OpenPGP: what is signed or packed in one is looked at; what is encrypted nobody can look into.
#pragma once

#include <optional>

#include "bytes.h"
#include "output.h"
#include "streams.h"

namespace sluice::openpgp {

struct Reading {
  bool is_encrypted = false;
  // Of a message that is none, or encrypted, nothing.
  bool has_content = false;
  streams::End end = streams::End::kWhole;
};

// The content goes to the output: the bytes that were signed, or packets that were packed.
Reading Read(Bytes bytes, streams::Output& output);

// Another packet, or one that is signed.
bool BeginsMessage(Bytes bytes);

}  // namespace sluice::openpgp
