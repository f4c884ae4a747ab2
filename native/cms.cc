// SPDX-License-Identifier: GPL-2.0-only
// RFC 5652, 5.1 and 5.2; RFC 3274; lengths as X.690, 8.1.3, has them. Certificates and signatures stand behind the content, and aren't read.
#include "cms.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace sluice::cms {
namespace {

constexpr uint8_t kObject = 0x06;
constexpr uint8_t kOctets = 0x04;
constexpr uint8_t kConstructed = 0x20;
constexpr uint8_t kSequence = 0x30;
constexpr uint8_t kContent = 0xa0;
constexpr uint8_t kEnd = 0;
constexpr std::string_view kSigned("\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02", 9);
constexpr std::string_view kCompressed("\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x01\x09", 11);

struct Element {
  uint8_t tag;
  size_t header;
  // Nothing: it has an end of its own.
  std::optional<uint64_t> length;
};

std::optional<Element> ElementAt(Bytes rest) {
  constexpr uint8_t kLong = 0x80;
  constexpr uint8_t kDigitsMost = 8;
  if (rest.size() < 2) return std::nullopt;
  if (rest[1] == kLong) return Element{rest[0], 2, {}};
  if (rest[1] < kLong) return Element{rest[0], 2, rest[1]};
  const uint8_t digits = rest[1] & (kLong - 1);
  if (digits > kDigitsMost || rest.size() < 2U + digits) return std::nullopt;
  uint64_t length = 0;
  for (const uint8_t digit : rest.subspan(2, digits)) length = length << 8 | digit;
  return Element{rest[0], 2U + digits, length};
}

// What is constructed is entered, so that elements come in the order in which they stand.
Bytes Behind(Bytes rest, const Element& element) {
  const bool is_entered = (element.tag & kConstructed) != 0 || !element.length;
  const uint64_t size = is_entered ? element.header : element.header + std::min<uint64_t>(*element.length, rest.size());
  return rest.subspan(static_cast<size_t>(std::min<uint64_t>(size, rest.size())));
}

std::string_view ObjectOf(Bytes rest, const Element& element) {
  return TextOf(rest).substr(element.header, element.tag == kObject ? static_cast<size_t>(element.length.value_or(0)) : 0);
}

streams::End UnpackPieces(Bytes rest, streams::Output& output) {
  for (std::optional<Element> element = ElementAt(rest); element; element = ElementAt(rest)) {
    if (element->tag == kOctets && element->length) {
      const Bytes data = rest.subspan(element->header);
      if (!output.Put(data.first(static_cast<size_t>(std::min<uint64_t>(*element->length, data.size()))))) return output.stopped();
      if (data.size() < *element->length) return streams::End::kCut;
    } else if (element->tag != (kOctets | kConstructed) && element->tag != kEnd) {
      break;
    }
    rest = Behind(rest, *element);
  }
  return streams::End::kWhole;
}

}  // namespace

std::optional<streams::End> Unpack(Bytes bytes, streams::Output& output) {
  // Algorithms of digests come before the content, of which nobody has many.
  constexpr size_t kElementsMost = 64;
  if (bytes.empty() || bytes[0] != kSequence) return std::nullopt;
  bool is_object = false;
  Bytes rest = bytes;
  for (size_t count = 0; count < kElementsMost; count++) {
    const std::optional<Element> element = ElementAt(rest);
    if (!element) return std::nullopt;
    if (count == 1) {
      const std::string_view type = ObjectOf(rest, *element);
      if (type == kCompressed) return streams::End::kForeign;
      if (type != kSigned) return std::nullopt;
    }
    rest = Behind(rest, *element);
    // The first one is of the message itself.
    if (count > 2 && is_object && element->tag == kContent) return UnpackPieces(rest, output);
    is_object = element->tag == kObject;
  }
  return std::nullopt;
}

}  // namespace sluice::cms
