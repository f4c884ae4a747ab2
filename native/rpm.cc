// SPDX-License-Identifier: GPL-2.0-only
// A lead of 96 bytes, a header with signatures, one with what the package is, and the payload (rpm.org, "RPM V4 package format").
#include "rpm.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace sluice::rpm {
namespace {

using streams::Bytes;

constexpr std::string_view kLeadMagic = "\xed\xab\xee\xdb";
constexpr std::string_view kHeaderMagic = "\x8e\xad\xe8";
constexpr size_t kLead = 96;
constexpr size_t kIntroduction = 16;
constexpr size_t kEntry = 16;
// The first header is filled up to a whole number of these.
constexpr size_t kAlignment = 8;

bool Starts(Bytes bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

uint64_t BigEndian(Bytes bytes, size_t at) {
  uint64_t value = 0;
  for (size_t index = 0; index < 4; index++) value = value << 8 | bytes[at + index];
  return value;
}

}  // namespace

bool IsRpm(Bytes bytes) { return Starts(bytes, kLeadMagic); }

Reading Read(Bytes bytes) {
  Reading reading;
  uint64_t at = kLead;
  for (const size_t alignment : {kAlignment, size_t{1}}) {
    if (bytes.size() < at + kIntroduction) {
      reading.is_cut = true;
      return reading;
    }
    const Bytes header = bytes.subspan(at);
    if (!Starts(header, kHeaderMagic)) {
      reading.is_damaged = true;
      return reading;
    }
    const uint64_t size = kIntroduction + kEntry * BigEndian(header, 8) + BigEndian(header, 12);
    at += (size + alignment - 1) / alignment * alignment;
  }
  reading.is_cut = bytes.size() < at;
  reading.payload = bytes.subspan(std::min<uint64_t>(at, bytes.size()));
  return reading;
}

}  // namespace sluice::rpm
