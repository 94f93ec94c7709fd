// SPDX-License-Identifier: MIT
#pragma once

#include <thread>

#include "ddp/base/time.h"

namespace ddp {

// Asks until `condition` returns true, with a pause between two questions, for as long as
// `patience`. Returns whether it has become true.
template <class Condition>
bool becomes_true(const Condition& condition, Timeout patience, Timeout pause) {
  const Deadline deadline = Deadline::after(patience);
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

}  // namespace ddp
