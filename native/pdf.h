// SPDX-License-Identifier: GPL-2.0-only
// The streams of a PDF: libclamav passes over predictors, over filters that it knows only beside others, and over streams that it doesn't find by its
// reading of what stands around them.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "bytes.h"
#include "pdf-encryption.h"
#include "pdf-filters.h"
#include "streams.h"

namespace sluice::pdf {

// Deflated.
struct Stream {
  size_t start;
  size_t end;
  // Nothing: what is deflated is the content itself.
  std::optional<Row> row;
};

struct FilteredStream {
  size_t start;
  size_t end;
  // None: it is the content itself.
  std::vector<Step> steps;
  bool is_encrypted = false;
  uint32_t number = 0;
  uint32_t generation = 0;
};

struct Reading {
  std::vector<Stream> streams;
  // All others but pictures, and but those that are what they seem.
  std::vector<FilteredStream> filtered;
  Encryption encryption;
  // What undoes a stream isn't here, or it is encrypted, asks for a password, and has a predictor or a filter that libclamav doesn't undo; the head
  // is missing, or that it is encrypted is hidden, or said in several ways.
  bool is_foreign = false;
  // Of streams whose dictionaries say that the word which ends them is a part of them: these may lie in each other.
  size_t excess = 0;
};

// Readers take the first 1,024 bytes for its head. No more streams than so many, and one.
Reading Read(Bytes bytes, size_t streams_max);

streams::End Unpack(Bytes data, const Stream& stream, streams::Output& output);
// `between` grows by what came out of each filter, which may be much where little is left of it at the end.
streams::End Unpack(Bytes data, const FilteredStream& stream, const Encryption& encryption, streams::Output& output, uint64_t& between);

}  // namespace sluice::pdf
