// SPDX-License-Identifier: GPL-2.0-only
// Words and magics that say what may lie inside of a content, found in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bytes.h"

namespace sluice::marks {

enum class Kind : uint8_t {
  // A text speaks of base64.
  kBase64,
  // A line begins that uuencode would write.
  kUuencoded,
  kSevenZip,
  kCabinet,
  // gzip, bzip2, xz, zstd, lz4, lzip.
  kStream,
  kLzop,
  kTar,
  // A part of a mail is said to be quoted-printable.
  kQuoted,
  // What PowerShell is to do.
  kCommand,
  kRar,
  kLha,
  // Files that PyInstaller has put behind a program.
  kPyInstaller,
  kPhar,
  // A script as Microsoft's Script Encoder writes it.
  kEncodedScript,
  // The second header of a program for Windows, and the first one of a program for Linux.
  kWindowsProgram,
  kLinuxProgram,
  // A file in a notebook of OneNote.
  kNote,
  kBinHex,
  kZipMember,
  kZipEnd,
};

struct Mark {
  Kind kind;
  // Where begins what it says.
  size_t at;
};

// Nearly in the order in which they stand.
class Finder {
 public:
  explicit Finder(Bytes bytes) : bytes_(bytes) {}

  std::optional<Mark> Next();

 private:
  const Bytes bytes_;
  size_t next_ = 0;
};

}  // namespace sluice::marks
