// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <optional>
#include <thread>

#include "ddp/base/time.h"

namespace ddp {

// The fraction of a CPU that a thread uses between two of its calls: near 1 if it computes, near 0
// if it waits for another processor, such as a GPU. Each call takes about half a microsecond.
class CallerLoad {
 public:
  void begin();
  // The fraction since begin() on the same thread; nothing without a begin() since the last end().
  [[nodiscard]] std::optional<double> end();

 private:
  struct Moment {
    std::thread::id thread;
    Clock::time_point time;
    std::chrono::nanoseconds busy;
  };

  [[nodiscard]] static Moment now();

  std::optional<Moment> begin_;
};

}  // namespace ddp
