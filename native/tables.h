// SPDX-License-Identifier: GPL-2.0-only
// Puts functions of ours between libclamav, with the libraries that it is made of, and the C library: in their tables of addresses. An
// addon is loaded too late to come before the C library.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace sluice::tables {

struct Substitute {
  std::string_view name;
  void* function;
};

// Returns the names of those that are called from now on, one for each table. Before the first scan; a function is replaced once.
std::vector<std::string_view> Replace(std::span<const Substitute> substitutes);

}  // namespace sluice::tables
