// SPDX-License-Identifier: GPL-2.0-only
// What lies in a content in another spelling, or behind other bytes: base64 in a text that speaks of it, uuencoded and quoted files, archives.
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
  kQuoted = 0xff04,
  kReversedBase64 = 0xff05,
  // Of an object in RTF.
  kObjectDigits = 0xff06,
};

inline bool IsMethod(uint16_t method) { return method >= kBase64 && method <= kObjectDigits; }

// In one content, by marks that stand in it.
class Finder {
 public:
  // No more members than so many; one more says that there are.
  Finder(Bytes bytes, size_t members_max);

  void Meet(const marks::Mark& mark);
  // One that lies there as it is.
  void AddArchive(size_t at, uint64_t size);
  std::vector<zip::Member>& members() { return members_; }
  // Of archives, which may lie in each other.
  uint64_t archived_bytes() const { return archived_bytes_; }
  // All base64 is among the members.
  bool has_base64() const { return has_base64_; }
  // A part that is quoted-printable has blanks where a line goes on: mail programs pass over them, and libclamav takes the line for an end.
  bool has_odd_quotes() const { return has_odd_quotes_; }

 private:
  void FindBase64(size_t from);
  void FindUuencoded(size_t at);
  void FindCommand(size_t at);
  void AddQuoted(size_t start, size_t end);
  void AddTar(size_t at);
  void AddLha(size_t at);
  void AddScript(size_t at);
  void AddNote(size_t at);
  void AddBehindScript();
  void AddWindowsProgram(size_t at);
  void AddLinuxProgram(size_t at);
  void AddProgram(size_t at);
  void CheckQuoted(size_t at);

  const Bytes bytes_;
  const size_t members_max_;
  std::vector<zip::Member> members_;
  uint64_t archived_bytes_ = 0;
  bool has_base64_ = false;
  bool has_odd_quotes_ = false;
  bool has_program_ = false;
  size_t quoted_end_ = 0;
  size_t tar_end_ = 0;
  size_t lha_end_ = 0;
  size_t uuencoded_end_ = 0;
};

// By its first bytes.
bool IsText(Bytes bytes);

// More than a magic: what stands in a header of each.
bool BeginsStream(Bytes rest);

streams::End DecodeUuencoded(Bytes data, streams::Output& output);
streams::End DecodeQuoted(Bytes data, streams::Output& output);

}  // namespace sluice::encoded
