// SPDX-License-Identifier: GPL-2.0-only
// Undoes the filters of a stream of a PDF. libclamav gives up at letters in lines that go on and at zeros between digits, which readers pass over
// (ISO 32000-2, 7.4.2 and 7.4.3), opens no stream that is packed by LZW or run lengths alone, and knows no predictors.
#pragma once

#include <vector>

#include "bytes.h"
#include "pdf-objects.h"
#include "streams.h"

namespace sluice::pdf {

// Those behind which something can be had that isn't a picture.
bool IsKnown(const std::vector<Step>& steps);

// What is damaged or cut is undone as far as it goes, as readers do.
// `between` grows by what came out of each.
streams::End Undo(Bytes data, const std::vector<Step>& steps, streams::Output& output, uint64_t& between);

// Of rows, as they were before they became differences.
bool PutRows(Bytes data, const Row& row, streams::Output& output);

}  // namespace sluice::pdf
