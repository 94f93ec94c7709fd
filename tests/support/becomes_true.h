// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "ddp/base/time.h"

namespace ddp::test {

// Waits up to ten seconds until the condition is true.
inline bool becomes_true(const std::function<bool()>& condition) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace ddp::test
