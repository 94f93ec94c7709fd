// SPDX-License-Identifier: MIT
#include "interval_meter.h"

#include <chrono>

namespace train {

void IntervalMeter::begin() {
  *this = {};
  epoch_begin_ = begin_ = ddp::Clock::now();
}

IntervalMeter::Means IntervalMeter::take(double data_wait_seconds) {
  const auto now = ddp::Clock::now();
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const auto steps = static_cast<double>(steps_);
  const Means means = {.samples_per_second = static_cast<double>(samples_) / seconds,
                       .step_ms = 1000 * seconds / steps,
                       .data_wait_ms = 1000 * (data_wait_seconds - wait_before_) / steps};
  begin_ = now;
  wait_before_ = data_wait_seconds;
  samples_ = steps_ = 0;
  return means;
}

}  // namespace train
