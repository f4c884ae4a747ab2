// SPDX-License-Identifier: GPL-2.0-only
// [MS-OXTNEF] 2.1; properties as its 2.1.3.4 has them. They are found by their tags, whatever stands before them.
#include "tnef.h"

#include <algorithm>
#include <string_view>

namespace sluice::tnef {
namespace {

// PR_ATTACH_DATA_BIN, PR_ATTACH_DATA_OBJ and PR_RTF_COMPRESSED: a tag, how many values there are, how long the first one is, and that, of an object behind its kind.
void AddProperties(Bytes bytes, size_t start, size_t size, std::string_view name, size_t attachments_max, std::vector<Attachment>& found) {
  constexpr size_t kHead = 12;
  constexpr size_t kKind = 16;
  const Bytes properties = bytes.subspan(start, size);
  const std::string_view text = TextOf(properties);
  for (size_t at = text.find(name, 2); at != text.npos && found.size() <= attachments_max; at = text.find(name, at + 1)) {
    const size_t tag = at - 2;
    const bool is_object = Has(properties, tag, std::string_view("\x0d\0", 2));
    if ((!is_object && !Has(properties, tag, "\x02\x01")) || size - tag < kHead) continue;
    const size_t length = std::min<size_t>(Word(properties, tag + 8), size - tag - kHead);
    const size_t kind = is_object ? std::min(kKind, length) : 0;
    found.push_back({start + tag + kHead + kind, length - kind});
  }
}

}  // namespace

std::vector<Attachment> Read(Bytes bytes, size_t attachments_max) {
  constexpr size_t kFirst = 6;
  constexpr size_t kHead = 9;
  constexpr size_t kSum = 2;
  constexpr uint32_t kData = 0x0006800f;
  constexpr uint32_t kProperties = 0x00069005;
  constexpr uint32_t kPropertiesOfMessage = 0x00069003;
  std::vector<Attachment> found;
  if (!Has(bytes, 0, "\x78\x9f\x3e\x22") || bytes.size() < kFirst) return found;
  for (size_t at = kFirst; bytes.size() - at >= kHead && found.size() <= attachments_max;) {
    const uint32_t kind = Word(bytes, at + 1);
    const size_t start = at + kHead;
    const uint64_t said = Word(bytes, at + 5);
    const size_t size = static_cast<size_t>(std::min<uint64_t>(said, bytes.size() - start));
    if (kind == kData) found.push_back({start, size});
    if (kind == kProperties) AddProperties(bytes, start, size, "\x01\x37", attachments_max, found);
    if (kind == kPropertiesOfMessage) AddProperties(bytes, start, size, "\x09\x10", attachments_max, found);
    at = start + static_cast<size_t>(std::min<uint64_t>(said + kSum, bytes.size() - start));
  }
  return found;
}

}  // namespace sluice::tnef
