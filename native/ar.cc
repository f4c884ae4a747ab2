// SPDX-License-Identifier: GPL-2.0-only
// ar(5): a magic, then headers of 60 characters, each before its data, at even places.
#include "ar.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

namespace sluice::ar {
namespace {

using streams::Bytes;

constexpr std::string_view kMagic = "!<arch>\n";
constexpr size_t kHeader = 60;
constexpr std::string_view kHeaderEnd = "`\n";

std::string_view TextOf(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::optional<size_t> NumberOf(std::string_view text) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

}  // namespace

bool IsAr(Bytes bytes) { return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0; }

Reader::Reader(Bytes bytes) : rest_(bytes.subspan(kMagic.size())) {}

bool Reader::Next(Member& member) {
  // One that ends within a header has nothing more to say.
  if (rest_.size() < kHeader) return false;
  const std::string_view header = TextOf(rest_.first(kHeader));
  const std::optional<size_t> size = NumberOf(header.substr(48, 10));
  if (!size || !header.ends_with(kHeaderEnd)) {
    is_damaged_ = true;
    return false;
  }
  const Bytes data = rest_.subspan(kHeader);
  member.is_cut = data.size() < *size;
  member.data = data.first(std::min(data.size(), *size));
  // As BSD has it: a long name lies before the data.
  constexpr std::string_view kLongName = "#1/";
  if (header.starts_with(kLongName)) {
    const size_t name = NumberOf(header.substr(kLongName.size(), 13)).value_or(0);
    member.data = member.data.subspan(std::min(name, member.data.size()));
  }
  const size_t padded = *size + (*size & 1);
  rest_ = data.subspan(std::min(data.size(), std::max(padded, *size)));
  return true;
}

}  // namespace sluice::ar
