// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/threads/becomes_true.h"

namespace ddp::test {

// Waits up to ten seconds until the condition is true.
template <class Condition>
bool becomes_true(const Condition& condition) {
  return ddp::becomes_true(condition, Timeout(10'000), Timeout(1));
}

}  // namespace ddp::test
