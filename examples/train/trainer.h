// SPDX-License-Identifier: MIT
#pragma once

#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "checkpointing.h"
#include "ddp/base/time.h"
#include "ddp/data/data_loader.h"
#include "ddp/engine/signal_guard.h"
#include "ddp/samplers/sampler.h"
#include "evaluator.h"
#include "interval_meter.h"
#include "journal.h"
#include "learner.h"
#include "options.h"
#include "step_trace.h"
#include "task.h"
#include "training_state.h"

namespace train {

// One rank's part of the job. All ranks do the same; only rank 0 prints and writes files.
class Trainer {
 public:
  Trainer(const Options& options, std::shared_ptr<ddp::ProcessGroup> group);

  void run();

  // The signal to this rank that ended the training early; nothing if none did.
  [[nodiscard]] std::optional<int> stopped_by() const {
    return is_asked_to_stop_ ? signals_.stop_signal() : std::nullopt;
  }

 private:
  // Loads a checkpoint, if there is one to resume from.
  void resume();
  void announce();
  [[nodiscard]] ddp::EpochPlan plan_epoch();
  void begin_epoch(int epoch);
  // A step of an epoch, counted from 1, and the epoch's number of steps.
  struct Place {
    int epoch = 0;
    std::int64_t step = 0;
    std::int64_t steps = 0;
  };
  // False once a signal has asked some rank to stop, or --max-steps is reached.
  [[nodiscard]] bool goes_on() const { return !is_asked_to_stop_ && steps_left() > 0; }
  // Trains the rest of the epoch, for as long as it goes on.
  void train_epoch(int epoch);
  // Also saves, if the epoch is over in the state that was reached. If a signal has asked some rank
  // to stop, there is no result, and is_asked_to_stop_ says so.
  void evaluate_epoch(int epoch, TrainingState reached);
  void evaluate();
  // Tells the learning rate's schedule the test loss of an epoch that is over.
  void step_plateau(double loss);
  void begin_accumulation(const ddp::Batch& batch);
  // `waited_since` is when the wait for the batch began.
  void train_step(const ddp::Batch& batch, ddp::Clock::time_point waited_since);
  void trace(StepMoment moment);
  void check_last_step();
  template <class F>
  void at(const Place& place, const F& work) const;
  // Throws NonFiniteError on all ranks if the loss is not finite and such losses are not allowed.
  void check_loss(double loss, const std::string& name) const;
  // Saves before evaluating, since the sender of the signal may not wait for an evaluation.
  void save_before_stop(const TrainingState& reached);
  void tell_stop();
  [[nodiscard]] TrainingState state() const;
  void log_step(int epoch, const ddp::Batch& batch);
  // Prints what the steps so far have cost.
  void report(std::FILE* stream);
  void finish();
  // Names the files that could not be written. The training goes on without them, and the warning
  // at that time is easily overlooked.
  void tell_incomplete_files();
  // The model, device and ranks: "mlp on cpu over shm: 2 ranks, global batch 128".
  [[nodiscard]] std::string job_name() const;
  // The steps into which these passes of an epoch are grouped.
  [[nodiscard]] std::int64_t steps_in(std::int64_t passes) const {
    return (passes + options_.accumulate - 1) / options_.accumulate;
  }
  // Steps of this epoch: up to a batch, and in all.
  [[nodiscard]] std::int64_t epoch_steps(const ddp::Batch& batch) const {
    return steps_skipped_ + steps_in(batch.step + 1);
  }
  [[nodiscard]] std::int64_t epoch_steps() const {
    return steps_skipped_ + steps_in(loader_.plan().steps());
  }
  // Steps before --max-steps is reached.
  [[nodiscard]] std::int64_t steps_left() const {
    constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
    return options_.max_steps == 0 ? kUnlimited : options_.max_steps - steps_done_;
  }
  [[nodiscard]] bool is_main() const { return group_->rank() == 0; }
  [[nodiscard]] ddp::Stream stream() { return learner_.context().stream(); }
  [[nodiscard]] ddp::DistributedDataParallel& engine() { return learner_.model().engine(); }

  Options options_;
  std::shared_ptr<ddp::ProcessGroup> group_;
  std::int64_t step_batch_;  // samples in one step, over all ranks and passes
  std::unique_ptr<Task> task_;
  JobDescription job_;
  std::unique_ptr<ddp::Sampler> sampler_;
  ddp::DataLoader loader_;
  Learner learner_;
  Evaluator evaluator_;
  ddp::SignalGuard signals_;
  std::optional<StepTrace> trace_;
  std::optional<Checkpointing> checkpoints_;
  std::optional<TrainingState> resumed_;  // where this job began, if it resumed a checkpoint
  std::optional<Journal> journal_;        // only rank 0 has one
  std::optional<Evaluation> result_;      // of the current parameters, if they were evaluated
  std::int64_t steps_done_ = 0;
  std::int64_t steps_skipped_ = 0;  // steps of this epoch that an earlier job made
  int epoch_ = 0;
  std::optional<Place> unchecked_;  // the last step, until check_last_step()
  bool is_asked_to_stop_ = false;
  IntervalMeter interval_;
};

}  // namespace train
