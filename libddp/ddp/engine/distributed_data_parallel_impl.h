// SPDX-License-Identifier: MIT
//
// The implementation of DistributedDataParallel. Private to the engine.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ddp/cuda/profiler_span.h"
#include "ddp/engine/caller_gradients.h"
#include "ddp/engine/control_vector.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "ddp/engine/factor_ring.h"
#include "ddp/engine/finite_check.h"
#include "ddp/engine/packed_broadcast.h"
#include "ddp/engine/parameter_use.h"
#include "ddp/engine/pass_plan.h"
#include "ddp/engine/reducer.h"
#include "ddp/engine/replica_check.h"
#include "ddp/engine/step_accounts.h"

namespace ddp {

// Runs the steps and passes in their order. The Reducer handles the gradients, the ControlVector
// what ranks tell each other in a step. Each optional check is a class of its own, which exists
// only if it was requested.
class DistributedDataParallel::Impl {
 public:
  Impl(std::shared_ptr<ProcessGroup> group, std::vector<Parameter> parameters, DdpOptions options);

  const std::shared_ptr<ProcessGroup>& group() const { return group_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Reducer& reducer() const { return reducer_; }
  // Gradient i, which lies in the caller's memory or in a bucket.
  Buffer gradient(std::size_t i) const;

  void continue_after(std::int64_t steps);
  double begin_step(const StepOptions& step);
  template <class Value>
  void record_metric(std::size_t slot, const Value& value, double weight) {
    check_open("record_metric");
    control_.add_metric(slot, value, weight);
  }
  void vote(std::size_t slot, bool in_favour);
  void mark_ready(std::size_t i, Stream stream);
  void wait(Stream stream);

  void accumulate(int passes);
  void add_no_sync_guard() { passes_.add_guard(); }
  void remove_no_sync_guard() { passes_.remove_guard(); }
  bool is_synchronized() const { return passes_.reduces(); }

  const double* gradient_scale() const;
  bool should_step() { return is_synchronized() && is_finite_ && has_reduced_samples(); }
  bool is_finite() const { return is_finite_; }
  bool is_used(std::size_t i) {
    check_index("is_used", i);
    return !use_ || use_->is_used(i);
  }
  bool is_over();
  bool stop_requested() { return control_.complete_ledger().last().stop_requests > 0; }
  bool agreed(std::size_t slot, Quorum quorum);

  void begin_forward(Stream stream);
  void broadcast_buffers(Stream stream);

  StepSummary summary() { return control_.complete_ledger().last(); }
  StepSummary take_totals() { return control_.complete_ledger().take_totals(); }
  StepTimes times();
  Statistics statistics() const;
  const StepStatistics& step_statistics() { return accounts_.statistics(); }

 private:
  enum class State { kIdle, kOpen, kReducing };

  // The number of the current step in the whole training.
  std::uint64_t number_of_step() const { return steps_before_ + step_; }
  bool has_reduced_samples();
  void make_checks();
  void check_open(const char* call) const;
  void check_index(const char* call, std::size_t i) const {
    if (i >= parameters_.size()) refuse_index(call, i);
  }
  [[noreturn]] void refuse_index(const char* call, std::size_t i) const;
  void open_step();
  void note_pass(const StepOptions& pass);
  std::uint64_t take_fingerprint();
  double open_control(double samples);
  void launch_control(Stream stream);
  void log_who_ran_out();
  void warn_of_factor(double factor);
  [[noreturn]] void refuse_mark(std::size_t i) const;
  [[noreturn]] void fail_everywhere(const std::string& what) const;
  void check_all_ready() const;
  void reduce(Stream stream);
  void hold(Stream stream);
  void finish_control(Stream stream);
  void average(Stream stream);
  void zero_gradients(Stream stream);

  std::shared_ptr<ProcessGroup> group_;
  std::vector<Parameter> parameters_;
  DdpOptions options_;
  bool alone_;
  bool may_forget_factor_;  // nominal_samples was not set, and the warning has not been given
  FlightRecorder::Label control_label_;
  ControlVector control_;
  Reducer reducer_;
  CallerGradients callers_;
  std::optional<FactorRing> factors_;  // used by scale_at_ready with several ranks
  std::optional<ParameterUse> use_;
  std::optional<FiniteCheck> finite_;
  std::optional<ReplicaCheck> replicas_;
  std::optional<PackedBroadcast> buffers_;  // only with several ranks
  State state_ = State::kIdle;
  std::uint64_t step_ = 0;          // this engine's last step that has begun: 1, 2, ...
  std::uint64_t steps_before_ = 0;  // the training's steps before this engine's first one
  double samples_ = 0;              // samples of this rank in this pass
  double step_samples_ = 0;         // samples of this rank in the step so far
  bool divides_ = false;     // the step's gradients are multiplied by the control vector's scale
  bool is_finite_ = true;    // the last step's reduced gradients; true if unchecked
  bool was_active_ = true;   // whether this rank was active in the last step
  bool had_samples_ = true;  // whether this rank had samples in the last step
  bool has_logged_who_ran_out_ = false;
  PassPlan passes_;
  RankState own_;  // this rank's state in this step
  Stream stream_;  // the stream of the last wait()
  Statistics statistics_;
  StepAccounts accounts_;
  cu::ProfilerSpan step_span_;
  cu::ProfilerSpan backward_span_;
};

}  // namespace ddp
