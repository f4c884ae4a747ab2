// SPDX-License-Identifier: GPL-2.0-only
// One filter after the other. What comes out of each is held until the next one has read it.
#include "pdf-filters.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "hex.h"

namespace sluice::pdf {
namespace {

// So many are decoded at once.
constexpr size_t kAtOnce = 64 << 10;
constexpr std::string_view kBlanks("\0\t\n\f\r ", 6);
constexpr std::string_view kDelimiters("\0\t\n\f\r /<>[]()%", 14);

bool IsBlank(uint8_t byte) { return kBlanks.find(static_cast<char>(byte)) != kBlanks.npos; }

struct Named {
  std::string_view name;
  Filter filter;
};

constexpr Named kFilters[] = {
    {"ASCIIHexDecode", Filter::kHex},
    {"AHx", Filter::kHex},
    {"ASCII85Decode", Filter::kBase85},
    {"A85", Filter::kBase85},
    {"FlateDecode", Filter::kDeflated},
    {"Fl", Filter::kDeflated},
    {"DCTDecode", Filter::kPicture},
    {"DCT", Filter::kPicture},
    {"CCITTFaxDecode", Filter::kPicture},
    {"CCF", Filter::kPicture},
    {"JBIG2Decode", Filter::kPicture},
    {"JPXDecode", Filter::kPicture},
};

Filter FilterOf(std::string_view name) {
  const auto found = std::find_if(std::begin(kFilters), std::end(kFilters), [name](const Named& one) { return one.name == name; });
  return found == std::end(kFilters) ? Filter::kOther : found->filter;
}

// The digits of a byte may lie in two lines. The last one may lack its second.
streams::End DecodeHex(Bytes data, bool& is_odd, streams::Output& output) {
  constexpr uint8_t kEnd = '>';
  std::optional<uint8_t> high;
  std::vector<uint8_t> decoded;
  for (const uint8_t byte : data) {
    if (byte == kEnd) break;
    const std::optional<uint8_t> digit = DigitOf(static_cast<char>(byte));
    if (!digit) {
      is_odd = true;
    } else if (!high) {
      high = digit;
    } else {
      decoded.push_back(static_cast<uint8_t>(*high << 4 | *digit));
      high.reset();
      if (decoded.size() < kAtOnce) continue;
      if (!output.Put(decoded)) return output.stopped();
      decoded.clear();
    }
  }
  if (high) decoded.push_back(static_cast<uint8_t>(*high << 4));
  return output.Put(decoded) ? streams::End::kWhole : output.stopped();
}

// Five letters are four bytes, and a `z` is four zeros. What is said before them by PostScript some readers pass over.
streams::End DecodeBase85(Bytes data, bool& is_odd, streams::Output& output) {
  constexpr uint8_t kFirst = '!';
  constexpr uint8_t kLast = 'u';
  constexpr size_t kGroup = 5;
  size_t at = 0;
  while (at < data.size() && IsBlank(data[at])) at++;
  if (Has(data, at, "<~")) {
    is_odd = true;
    at += 2;
  }
  std::vector<uint8_t> decoded;
  uint64_t value = 0;
  size_t count = 0;
  const auto take = [&](size_t bytes) {
    for (size_t index = 0; index < bytes; index++) decoded.push_back(static_cast<uint8_t>(value >> (24 - 8 * index)));
    value = 0;
    count = 0;
  };
  for (; at < data.size(); at++) {
    if (decoded.size() >= kAtOnce) {
      if (!output.Put(decoded)) return output.stopped();
      decoded.clear();
    }
    const uint8_t byte = data[at];
    if (byte == '~') {
      is_odd = is_odd || !Has(data, at, "~>");
      break;
    }
    if (byte == 'z' && count == 0) {
      decoded.insert(decoded.end(), 4, 0);
    } else if (byte >= kFirst && byte <= kLast) {
      value = value * 85 + (byte - kFirst);
      if (++count == kGroup) take(kGroup - 1);
    } else {
      // libclamav passes over the blanks of C.
      is_odd = is_odd || byte == 0 || !IsBlank(byte);
    }
  }
  if (count > 1) {
    const size_t bytes = count - 1;
    for (; count < kGroup; count++) value = value * 85 + (kLast - kFirst);
    take(bytes);
  }
  return output.Put(decoded) ? streams::End::kWhole : output.stopped();
}

}  // namespace

std::vector<Filter> FiltersOf(std::string_view dictionary) {
  constexpr std::string_view kKey = "/Filter";
  constexpr size_t kFiltersMost = 16;
  std::vector<Filter> filters;
  const size_t key = dictionary.find(kKey);
  if (key == dictionary.npos) return filters;
  bool is_list = false;
  for (size_t at = key + kKey.size(); at < dictionary.size() && filters.size() < kFiltersMost;) {
    const char letter = dictionary[at++];
    if (letter == '[') is_list = true;
    if (letter == '/') {
      const size_t end = std::min(dictionary.find_first_of(kDelimiters, at), dictionary.size());
      filters.push_back(FilterOf(dictionary.substr(at, end - at)));
      at = end;
      if (!is_list) return filters;
    } else if (letter == ']' || letter == '<' || letter == '>') {
      return filters;
    }
  }
  return filters;
}

std::optional<Unspelled> Unspell(Bytes data, const std::vector<Filter>& filters, const streams::Output& bounds) {
  bool is_odd = false;
  Held held;
  for (const Filter filter : filters) {
    if (filter == Filter::kPicture) break;
    if (filter == Filter::kOther) {
      if (!is_odd) return std::nullopt;
      return Unspelled{streams::End::kForeign, {}};
    }
    Held next;
    streams::Output output = bounds.Beside(next);
    streams::End end = streams::End::kWhole;
    if (filter == Filter::kHex) end = DecodeHex(data, is_odd, output);
    else if (filter == Filter::kBase85) end = DecodeBase85(data, is_odd, output);
    else end = streams::UnpackZlib(data, output);
    if (end > streams::End::kForeign) return Unspelled{end, {}};
    held = std::move(next);
    data = held.bytes();
  }
  if (!is_odd) return std::nullopt;
  return Unspelled{streams::End::kWhole, std::move(held)};
}

}  // namespace sluice::pdf
