// SPDX-License-Identifier: GPL-2.0-only
// Macros of Office ([MS-OVBA]), as they lie in a stream of a compound file, and what PowerPoint packs into its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "bundles.h"
#include "bytes.h"
#include "output.h"

namespace sluice::macros {

// The text of the next module that begins at this place or behind it. Returns where the search goes on; nothing: there is none.
std::optional<size_t> UnpackNext(Bytes bytes, size_t from, streams::Output& output);

// Compound files among the records of a presentation ([MS-PPT] 2.10.34: ExOleObjStg), as they are or by zlib. No more than one more than asked for.
std::vector<bundles::File> ReadObjects(Bytes bytes, size_t files_max);

}  // namespace sluice::macros
