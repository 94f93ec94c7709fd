// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>

#include "ddp/engine/step_times.h"
#include "ddp/io/trace_writer.h"

namespace train {

// When the host was where in a step; what the engine did meanwhile is in ddp::StepTimes.
struct HostTimes {
  ddp::Clock::time_point begin = {};     // waiting for the batch
  ddp::Clock::time_point data_end = {};  // the batch is there
  ddp::Clock::time_point forward_end = {};
  ddp::Clock::time_point backward_end = {};  // with all reductions
  ddp::Clock::time_point end = {};           // with the optimizer
};

// --trace: every step as two lanes, what the trainer does and the reductions of the buckets, so
// that one sees how much of them is hidden.
class StepTrace {
 public:
  StepTrace(const std::filesystem::path& path, int rank);

  void add(std::int64_t step, const HostTimes& host, const ddp::StepTimes& engine);

 private:
  ddp::TraceWriter writer_;
  int training_;
  int reductions_;
};

}  // namespace train
