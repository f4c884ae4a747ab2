// SPDX-License-Identifier: GPL-2.0-only
// Faults on demand. The first line of the content says which: "SLUICE-FAULT crash segv\n"; all orders are in fault.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::faults {

using Order = std::vector<std::string>;

// What the scan shall have answered.
struct Outcome {
  int code;
  std::string code_text;
  std::string name;  // of a virus; may be empty
};

// The words after the marker; nothing for content that is just content.
std::optional<Order> OrderIn(std::string_view content);

// Does what is ordered, on this thread. Nothing: the scan shall go on as if there had been no order.
std::optional<Outcome> Carry(const Order& order, const std::string& temporary_directory);

}  // namespace sluice::faults
