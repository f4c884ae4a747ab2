// SPDX-License-Identifier: GPL-2.0-only
// What lies in a content in another spelling, or behind other bytes: base64 in a text that speaks of it, uuencoded files, archives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "bytes.h"
#include "streams.h"
#include "zip.h"

namespace sluice::encoded {

// Methods of members, beside those of a zip.
enum Method : uint16_t {
  kBase64 = 0xff00,
  kUuencoded = 0xff01,
  kAsItIs = 0xff02,
  // With the header of RFC 1950.
  kZlib = 0xff03,
};

inline bool IsMethod(uint16_t method) { return method >= kBase64 && method <= kZlib; }

// No more than so many; one more says that there are.
std::vector<zip::Member> Find(Bytes bytes, size_t members_max);

// The next place from `at` on where a stream begins without doubt.
std::optional<size_t> FindStream(Bytes bytes, size_t at);

streams::End DecodeBase64(Bytes data, streams::Output& output);
streams::End DecodeUuencoded(Bytes data, streams::Output& output);

}  // namespace sluice::encoded
