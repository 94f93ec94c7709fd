// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/base/stream.h"
#include "ddp/collectives/process_group.h"
#include "ddp/engine/control_ledger.h"
#include "ddp/engine/reducer.h"
#include "ddp/engine/statistics/step_recorder.h"
#include "ddp/engine/statistics/step_statistics.h"
#include "ddp/engine/statistics/step_stopwatch.h"

namespace ddp {

// Measures what steps cost: it takes the times of this rank's steps, chooses the step whose times
// are sent to the other ranks, and adds the times of all ranks to the statistics.
class StepAccounts {
 public:
  // The reducer must outlive this object.
  StepAccounts(const ProcessGroup& group, Reducer& reducer);

  // Begins step 1, 2, .... Returns the times of an earlier step, which this rank sends to the
  // others in this step. `ledger` has the times that all ranks have sent.
  RankTimes begin_step(std::uint64_t step, const ControlLedger& ledger);
  // Adds a wait of this rank for a batch of the step.
  void add_data_wait(double seconds) { data_seconds_ += seconds; }
  // Backward has ended: the passes of this step are all on `stream`.
  void backward_ended(Stream stream);
  // The step has ended: `stream` is ordered behind all its reductions. An idle rank had no samples.
  void ended(Stream stream, bool is_idle);

  [[nodiscard]] StepCosts costs();

 private:
  void count_alone();

  bool alone_;
  const StepRecorder* recorder_;  // of the reducer; may be null
  StepStopwatch stopwatch_;
  StepStatistics statistics_;
  double data_seconds_ = 0;  // waits for data in this step
};

}  // namespace ddp
