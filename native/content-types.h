// SPDX-License-Identifier: GPL-2.0-only
// Numbers for the names of types that libclamav gives contents: the same for all threads and all engines of the process.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::content_types {

// libclamav 1.4 knows about 90. A type beyond these has no number.
constexpr uint32_t kMost = 255;
// No type is known.
constexpr uint32_t kNone = 0;

uint32_t NumberOf(std::string_view name) noexcept;

// Empty: there is none of that number.
std::string_view NameOf(uint32_t number) noexcept;

}  // namespace sluice::content_types
