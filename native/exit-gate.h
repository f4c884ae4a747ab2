// SPDX-License-Identifier: GPL-2.0-only
// Holds loading threads still while the process exits: exit() tears down what libclamav stands on.
#pragma once

namespace sluice::exit_gate {

// A thread between Enter and Leave passes `PassOrPark` often; once the process exits, it stays in there for good.
class Passage {
 public:
  Passage();
  ~Passage();
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;
};

void PassOrPark();

}  // namespace sluice::exit_gate
