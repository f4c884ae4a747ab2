// SPDX-License-Identifier: GPL-2.0-only
// Letters that a page or a document in XML says by their numbers or names: &#77; &#x4d; &plus;.
#pragma once

#include "bytes.h"
#include "output.h"

namespace sluice::entities {

// One that nobody needs is among them: a letter, a digit, or what base64 and the address of data are written with.
bool HasNeedless(Bytes text);

// The text with what they say. Those of other characters than bytes stay as they are.
streams::End Decode(Bytes text, streams::Output& output);

}  // namespace sluice::entities
