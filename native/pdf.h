// SPDX-License-Identifier: GPL-2.0-only
// The streams of a PDF that are deflated: libclamav passes over predictors, and over streams that it doesn't find by its reading of what stands around them.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "bytes.h"
#include "pdf-filters.h"
#include "streams.h"

namespace sluice::pdf {

struct Stream {
  size_t start;
  size_t end;
  // Bytes of a row; nothing: what is deflated is the content itself.
  std::optional<size_t> row;
  // To the one on the left.
  size_t pixel = 1;
  // Each row says how it is to be read, as in a PNG.
  bool is_png = false;
};

struct SpelledStream {
  size_t start;
  size_t end;
  std::vector<Filter> filters;
};

struct Reading {
  std::vector<Stream> streams;
  // Those with letters below one of their filters.
  std::vector<SpelledStream> spelled;
  // The filter of a stream that isn't deflated is named elsewhere, or lies below another one and has a predictor; the head is missing, or that it is encrypted is hidden.
  bool is_foreign = false;
};

// Readers take the first 1,024 bytes for its head. No more streams than so many, and one.
Reading Read(Bytes bytes, size_t streams_max);

streams::End Unpack(Bytes data, const Stream& stream, streams::Output& output);

}  // namespace sluice::pdf
