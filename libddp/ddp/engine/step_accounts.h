// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "ddp/base/stream.h"
#include "ddp/collectives/process_group.h"
#include "ddp/engine/control_vector.h"
#include "ddp/engine/step_recorder.h"
#include "ddp/engine/step_statistics.h"
#include "ddp/engine/step_stopwatch.h"

namespace ddp {

// Accounts for the cost of steps: takes the times of this rank's steps, decides which of them to
// tell the other ranks, and adds what all ranks tell to the statistics.
class StepAccounts {
 public:
  StepAccounts(const ProcessGroup& group, std::size_t bytes_per_step);

  // Step 1, 2, ... begins. Returns this rank's times of an earlier step, which it tells the others
  // in this one; `control` has the others' times. `recorder` may be null.
  RankTimes begin_step(std::uint64_t step, ControlVector& control, const StepRecorder* recorder);
  // This rank waited for a batch of the step.
  void add_data_wait(double seconds) { data_seconds_ += seconds; }
  // `stream` holds all of the step's backward passes.
  void backward_ended(Stream stream);
  // `stream` is behind all reductions. An idle rank had no samples.
  void ended(Stream stream, bool is_idle);

  [[nodiscard]] const StepStatistics& statistics();

 private:
  void count_alone();

  bool alone_;
  StepStopwatch stopwatch_;
  StepStatistics statistics_;
  double data_seconds_ = 0;  // of the step
};

}  // namespace ddp
