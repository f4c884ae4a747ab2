// SPDX-License-Identifier: GPL-2.0-only
// Objects of a PDF that have a stream, and what their dictionaries say of it: read as readers do, with names in any spelling, texts and notes that
// hold words of the format, and values that stand in objects of their own (ISO 32000-2, 7.2 and 7.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice::pdf {

enum class Filter : uint8_t { kHex, kBase85, kRuns, kLzw, kDeflated, kPicture, kOther };

// By a predictor the bytes of a row are differences.
struct Row {
  size_t size;
  // To the byte on the left.
  size_t pixel;
  // Each row says how it is to be read, as in a PNG.
  bool is_png;

  bool operator==(const Row&) const = default;
};

struct Step {
  Filter filter;
  std::optional<Row> row;
  // Codes of LZW grow one code before they must.
  bool is_early = true;

  bool operator==(const Step&) const = default;
};

struct Object {
  std::string_view dictionary;
  // Of its bytes.
  size_t start;
  // How many they are, as the dictionary says; 0: it doesn't, or not here.
  size_t length;
  // In the order in which they are undone.
  std::vector<Step> steps;
  // libclamav takes the bytes to begin elsewhere, or doesn't open the stream: its filter is said to be none, or it begins behind blanks.
  bool is_odd;
  // What undoes it isn't to be found, or is said twice.
  bool is_foreign;
  // The name of a filter stands in an object of its own, where libclamav doesn't look.
  bool is_elsewhere = false;
  // A filter says how it is encrypted, or that it isn't.
  bool has_own_cipher = false;
  uint32_t number = 0;
  uint32_t generation = 0;
};

struct Objects {
  std::vector<Object> with_streams;
  // There is more to read than a document has.
  bool is_too_much = false;
};

// No more than so many, and one.
Objects ReadObjects(std::string_view text, size_t most);

// By the numbers that a dictionary has. Nothing: there is no predictor.
std::optional<Row> RowOf(size_t predictor, size_t colors, size_t bits, size_t columns);

}  // namespace sluice::pdf
