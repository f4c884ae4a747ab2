// SPDX-License-Identifier: GPL-2.0-only
// Whether libclamav can unpack at this moment.
#pragma once

#include <string>

namespace sluice {

// Makes a nameless file in the folder, writes to it and lets go of it; a few microseconds on tmpfs.
bool StorageWorks(const std::string& directory);

}  // namespace sluice
