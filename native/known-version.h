// SPDX-License-Identifier: GPL-2.0-only
// Whether it is a libclamav of which is known what is asked of it beside its public functions.
#pragma once

#include <clamav.h>

#include <string_view>

namespace sluice {

inline bool IsKnownVersion() {
  static const bool is_known = std::string_view(cl_retver()).starts_with("1.4.");
  return is_known;
}

}  // namespace sluice
