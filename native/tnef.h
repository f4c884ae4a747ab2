// SPDX-License-Identifier: GPL-2.0-only
// What Outlook sends as `winmail.dat`. libclamav passes over an attachment without a title before it, and over a message that is attached, or the body of it in RTF.
#pragma once

#include <cstddef>
#include <vector>

#include "bytes.h"

namespace sluice::tnef {

struct Attachment {
  size_t start;
  size_t size;
};

// They may lie in each other. No more than so many; one more says that there are. Empty for all else.
std::vector<Attachment> Read(Bytes bytes, size_t attachments_max);

}  // namespace sluice::tnef
