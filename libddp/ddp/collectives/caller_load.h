// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <optional>
#include <thread>

#include "ddp/base/time.h"

namespace ddp {

// How much of a CPU a thread takes between two of its calls: near 1 if it computes, near 0 if it
// waits for somebody else's processor. Each call takes about half a microsecond.
class CallerLoad {
 public:
  void begin();
  // Since begin() on the same thread; nothing if that was not called, or answered before.
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
