// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/base/time.h"

namespace train {

// Measures the training between two lines of the log.
class IntervalMeter {
 public:
  // Means over the steps of an interval.
  struct Means {
    double samples_per_second = 0;
    double step_ms = 0;
    double data_wait_ms = 0;
  };

  // Begins the first interval of an epoch.
  void begin();
  // Those of all ranks in a pass that has ended.
  void add_samples(std::int64_t samples) { samples_ += samples; }
  // The optimizer has stepped, after one or more passes.
  void add_step() { ++steps_; }
  // `data_wait_seconds` is the time that the epoch has waited for data so far. Begins the next
  // interval. The interval must have a step.
  [[nodiscard]] Means take(double data_wait_seconds);

  [[nodiscard]] std::int64_t steps() const { return steps_; }  // in this interval
  [[nodiscard]] ddp::Clock::duration epoch_time() const { return ddp::Clock::now() - epoch_begin_; }

 private:
  ddp::Clock::time_point epoch_begin_;
  ddp::Clock::time_point begin_;
  std::int64_t samples_ = 0;
  std::int64_t steps_ = 0;
  double wait_before_ = 0;  // seconds that the epoch had waited for data when the interval began
};

}  // namespace train
