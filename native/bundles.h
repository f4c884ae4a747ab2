// SPDX-License-Identifier: GPL-2.0-only
// Files that lie in another one as a list in it says: programs by PyInstaller and Electron, archives of PHP, installers by NSIS, files of macOS in one piece, property lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "bytes.h"

namespace sluice::bundles {

struct File {
  size_t start;
  size_t size;
  // By zlib, where nothing else is said.
  bool is_packed = false;
};

// AppleSingle, AppleDouble and MacBinary, packages of OLE, asar, binary property lists with bytes in them (Safari's web archives). No more than one file more than asked for.
std::vector<File> Read(Bytes bytes, size_t files_max);

// Of PyInstaller, whose list ends here with its mark. The bytes of lists that were read are added to `read`: many marks may have one list.
std::vector<File> ReadPyInstaller(Bytes bytes, size_t mark, size_t files_max, uint64_t& read);

// Of an archive of PHP (phar), whose list follows this word of its script: those by deflate, without a head. Others can be seen as they are. `read` as above.
std::vector<File> ReadPhar(Bytes bytes, size_t mark, size_t files_max, uint64_t& read);

// Modules of PyInstaller, one behind the other, each by zlib, up to their list. Those that are encrypted begin nowhere.
struct Modules {
  size_t start;
  size_t list;
};
std::optional<Modules> ModulesOf(Bytes bytes);

// Of an installer by NSIS: where its data begins, which may be one stream, and how long the first of what is in it must be.
struct Installer {
  size_t start;
  uint32_t header_size;
};
std::optional<Installer> ReadNsis(Bytes bytes);

}  // namespace sluice::bundles
