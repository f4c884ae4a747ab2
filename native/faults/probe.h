// SPDX-License-Identifier: GPL-2.0-only
// Tries one thing that a scan thread has no business doing.
#pragma once

#include <string>

namespace sluice::faults {

// "OK" or the name of the error; "unknown" for a word that is none of the probes.
std::string Probe(const std::string& what, const std::string& path);

std::string ErrorName(int number);

}  // namespace sluice::faults
