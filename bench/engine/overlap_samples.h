// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <vector>

#include "ddp/engine/statistics/step_times.h"

namespace ddp::bench {

// Samples of steps. All are milliseconds, except `hidden`.
struct OverlapSamples {
  std::vector<double> backward;
  std::vector<double> communication;  // all reductions together
  std::vector<double> hidden;         // part of the communication, in percent
  std::vector<double> exposed;        // from the end of backward to the end of the step
  std::vector<double> last_bucket;

  void add(const StepTimes& times) {
    double sum = 0;
    for (const StepTimes::Bucket& bucket : times.buckets) {
      sum += milliseconds(bucket.reduction.value());
    }
    backward.push_back(milliseconds({times.begin, times.backward_end}));
    communication.push_back(sum);
    exposed.push_back(milliseconds({times.backward_end, times.end}));
    hidden.push_back(100 * (1 - exposed.back() / sum));
    last_bucket.push_back(milliseconds(times.buckets.back().reduction.value()));
  }

  static double milliseconds(const Interval& interval) {
    return std::chrono::duration<double, std::milli>(interval.end - interval.begin).count();
  }
};

}  // namespace ddp::bench
