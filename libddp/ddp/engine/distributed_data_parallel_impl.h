// SPDX-License-Identifier: MIT
//
// The implementation of DistributedDataParallel. Private to the engine.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "ddp/cuda/profiler_span.h"
#include "ddp/engine/caller_gradients.h"
#include "ddp/engine/checks/finite_check.h"
#include "ddp/engine/checks/mark_check.h"
#include "ddp/engine/checks/parameter_use.h"
#include "ddp/engine/checks/replica_check.h"
#include "ddp/engine/checks/same_data_check.h"
#include "ddp/engine/checks/step_sketcher.h"
#include "ddp/engine/checks/step_warnings.h"
#include "ddp/engine/control_vector.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "ddp/engine/loss_factor.h"
#include "ddp/engine/packed_broadcast.h"
#include "ddp/engine/pass.h"
#include "ddp/engine/pass_plan.h"
#include "ddp/engine/reducer.h"
#include "ddp/engine/statistics/step_accounts.h"
#include "ddp/engine/step_outcome.h"

namespace ddp {

// Runs the steps and passes in their order. The Reducer handles the gradients, the ControlVector
// what ranks tell each other in a step. Each optional check is a class of its own, which exists
// only if it was requested.
class DistributedDataParallel::Impl {
 public:
  Impl(std::shared_ptr<ProcessGroup> group, std::vector<Parameter> parameters, DdpOptions options);

  [[nodiscard]] const std::shared_ptr<ProcessGroup>& group() const { return group_; }
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }
  [[nodiscard]] const Reducer& reducer() const { return reducer_; }
  StepOutcome& outcome() { return outcome_; }
  // Gradient i, which lies in the caller's memory or in a bucket.
  [[nodiscard]] Buffer gradient(std::size_t i) const;

  void continue_after(std::int64_t steps);
  double begin_step(const StepOptions& step);
  template <class Value>
  void record_metric(std::size_t slot, const Value& value, double weight) {
    check_open("record_metric");
    control_.add_metric(slot, value, weight);
  }
  void vote(std::size_t slot, bool in_favour);
  void mark_ready(std::size_t i, Stream stream);
  // Whether some thread is in mark_ready or wait: see SoleCall.
  [[nodiscard]] std::atomic<bool>& running_call() { return is_in_call_; }
  void wait(Stream stream);
  void wait_host() const {
    check_closed("wait_host");
    reducer_.wait_host();
  }

  void accumulate(int passes);
  PassPlan& passes() { return passes_; }
  [[nodiscard]] bool is_synchronized() const { return state_ == State::kIdle && passes_.reduces(); }
  // Throws in a pass, whose gradients are not reduced yet.
  void check_closed(const char* call) const {
    if (state_ != State::kIdle) refuse_in_pass(call);
  }
  // Throws if the optimizer asks although a no_sync() guard held the last pass back. Between the
  // passes that accumulate() announced it may ask: the last of them will reduce.
  void check_not_held_back() const {
    if (passes_.is_guarded()) refuse_unreduced();
  }

  const double* gradient_scale();
  bool is_used(std::size_t i) {
    check_index("is_used", i);
    return !use_ || use_->is_used(i);
  }

  void begin_forward(Stream stream);
  void broadcast_buffers(Stream stream);

  StepTimes times();
  [[nodiscard]] Statistics statistics() const;
  StepCosts step_costs();

  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

 private:
  enum class State { kIdle, kOpen, kReducing };

  // The number of the current step in the whole training.
  [[nodiscard]] std::uint64_t number_of_step() const { return steps_before_ + step_; }
  void make_checks();
  void check_open(const char* call) const;
  void check_index(const char* call, std::size_t i) const {
    if (i >= reducer_.gradient_count()) refuse_index(call, i);
  }
  [[noreturn]] void refuse_index(const char* call, std::size_t i) const;
  [[noreturn]] static void refuse_in_pass(const char* call);
  [[noreturn]] void refuse_unreduced() const;
  [[nodiscard]] const double* folded_scale() const {
    return pass_.factors.divides && options_.fold_scale ? control_.gradient_scale() : nullptr;
  }
  [[nodiscard]] std::vector<Buffer> gradients() const;
  void open_step();
  void warn_of_endless_guard() const;
  void note_pass(const StepOptions& pass);
  void before_launch(std::size_t b, Stream stream);
  void launch_control(Stream stream);
  void log_warnings(const ControlLedger& ledger);
  void reduce(Stream stream);
  void hold(Stream stream);
  void finish_control(Stream stream);
  void average(Stream stream);
  void sketch_step(Stream stream);

  // First what each step touches: the model's kernels leave none of it in the caches.
  State state_ = State::kIdle;
  std::atomic<bool> is_in_call_ = false;
  PassPlan passes_;
  std::uint64_t step_ = 0;          // this engine's last step that has begun: 1, 2, ...
  std::uint64_t steps_before_ = 0;  // the training's steps before this engine's first one
  Pass pass_;                       // the last one that has begun
  Statistics statistics_;
  Stream stream_;  // the stream of the last wait()
  RankState own_;  // this rank's state in this step
  cu::ProfilerSpan step_span_;
  cu::ProfilerSpan backward_span_;
  std::shared_ptr<ProcessGroup> group_;
  std::vector<Parameter> parameters_;
  DdpOptions options_;
  bool alone_;
  std::unique_ptr<StepSketcher> sketcher_;  // only under ddp-prove
  FlightRecorder::Label control_label_;
  FlightRecorder::Label buffers_label_;
  ControlVector control_;
  Reducer reducer_;
  CallerGradients callers_;
  LossFactor factor_;
  MarkCheck marks_;
  StepOutcome outcome_;
  // Null unless they are asked for; the last two are null in a world of one.
  std::unique_ptr<ParameterUse> use_;
  std::unique_ptr<FiniteCheck> finite_;
  std::unique_ptr<ReplicaCheck> replicas_;
  std::unique_ptr<SameDataCheck> same_data_;
  std::unique_ptr<PackedBroadcast> buffers_;
  StepWarnings warnings_;
  StepAccounts accounts_;
};

}  // namespace ddp
