// SPDX-License-Identifier: GPL-2.0-only
#include "heads.h"

#include <algorithm>
#include <string_view>

namespace sluice::heads {
namespace {

constexpr std::string_view kMagics[] = {
    "MZ",          "PK\x03\x04",    "\xd0\xcf\x11\xe0",  "Rar!\x1a",          "7z\xbc\xaf", "\x7f" "ELF",       "MSCF",     "\x1f\x8b\x08", "x\x01", "x^",
    "x\x9c",       "x\xda",         "BZh",               "\xfd" "7zXZ",       "\x28\xb5\x2f\xfd", "\xca\xfe\xba\xbe", "ITSF", "\xff\xfe",  "\xef\xbb\xbf",
    "%PDF-",       "\xcf\xfa\xed\xfe", "\xce\xfa\xed\xfe",
    std::string_view("L\0\0\0\x01\x14", 6),
};

bool IsOfText(uint8_t byte) { return (byte >= ' ' && byte <= '~') || (byte >= '\t' && byte <= '\r'); }

}  // namespace

bool Head::IsKnown() const {
  if (!is_full()) return false;
  const Bytes bytes(bytes_);
  if (std::any_of(std::begin(kMagics), std::end(kMagics), [&](std::string_view magic) { return Has(bytes, 0, magic); })) return true;
  // The queries of a workbook, a zip behind two numbers ([MS-QDEFF]).
  if (Has(bytes, 8, "PK\x03\x04") || std::all_of(bytes.begin(), bytes.end(), IsOfText)) return true;
  for (size_t at = 0; at < kSize; at += 2) {
    if (!IsOfText(bytes[at]) || bytes[at + 1] != 0) return false;
  }
  return true;
}

}  // namespace sluice::heads
