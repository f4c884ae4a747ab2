// SPDX-License-Identifier: GPL-2.0-only
// Whether bytes are UTF-8, by the table of well-formed byte sequences in RFC 3629 section 4.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice {

inline bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i++]);
    if (first < 0x80) continue;
    if (first < 0xc2 || first > 0xf4) return false;
    const int following = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    for (int n = 1; n <= following; n++, i++) {
      if (i == text.size()) return false;
      const auto byte = static_cast<unsigned char>(text[i]);
      // No overlong forms, no surrogates, nothing over U+10FFFF: all of it shows in the second byte.
      const int lowest = n > 1 ? 0x80 : first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
      const int highest = n > 1 ? 0xbf : first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
      if (byte < lowest || byte > highest) return false;
    }
  }
  return true;
}

}  // namespace sluice
