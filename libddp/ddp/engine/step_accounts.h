// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "ddp/base/stream.h"
#include "ddp/collectives/process_group.h"
#include "ddp/engine/control_ledger.h"
#include "ddp/engine/step_recorder.h"
#include "ddp/engine/step_statistics.h"
#include "ddp/engine/step_stopwatch.h"

namespace ddp {

// Keeps the accounts of what steps cost: takes the times of this rank's steps, says which of them
// the other ranks are to be told, and enters into the statistics what all ranks tell.
class StepAccounts {
 public:
  StepAccounts(const ProcessGroup& group, std::size_t bytes_per_step);

  // Step 1, 2, ... begins. Returns what this rank tells the others in it, of a step before;
  // `ledger` has what they told. `recorder` may be null.
  RankTimes begin_step(std::uint64_t step, const ControlLedger& ledger,
                       const StepRecorder* recorder);
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
