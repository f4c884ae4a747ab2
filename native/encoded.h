// SPDX-License-Identifier: GPL-2.0-only
// What lies in a content in another spelling, or behind other bytes: base64 in a text that speaks of it, uuencoded files, archives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytes.h"
#include "marks.h"
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

// In one content, by marks that stand in it.
class Finder {
 public:
  // No more members than so many; one more says that there are.
  Finder(Bytes bytes, size_t members_max);

  void Meet(const marks::Mark& mark);
  std::vector<zip::Member>& members() { return members_; }

 private:
  void FindBase64(size_t from);
  void FindUuencoded(size_t at);
  void AddArchive(size_t at);

  const Bytes bytes_;
  const size_t members_max_;
  std::vector<zip::Member> members_;
  bool has_base64_ = false;
  size_t uuencoded_end_ = 0;
};

// More than a magic: what stands in a header of each.
bool BeginsStream(Bytes rest);

streams::End DecodeBase64(Bytes data, streams::Output& output);
streams::End DecodeUuencoded(Bytes data, streams::Output& output);

}  // namespace sluice::encoded
