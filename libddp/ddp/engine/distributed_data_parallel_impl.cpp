// SPDX-License-Identifier: MIT
#include "ddp/engine/distributed_data_parallel_impl.h"

#include <exception>
#include <stdexcept>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/group_scopes.h"
#include "ddp/collectives/group_state.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/engine/bucket_label.h"
#include "ddp/engine/checks/equal_models.h"
#include "ddp/engine/checks/model_arguments.h"
#include "ddp/engine/checks/step_arguments.h"

namespace ddp {
namespace {

[[noreturn]] void refuse_call(const std::string& what, const std::string& remark = "") {
  throw std::logic_error("[ddp] " + what +
                         ": a step is begin_step, mark_ready for each gradient, wait" + remark);
}

std::vector<GradientSpec> gradient_specs(const std::vector<Parameter>& parameters) {
  std::vector<GradientSpec> specs;
  for (const Parameter& parameter : parameters) {
    specs.push_back({parameter.value.count, parameter.value.dtype});
  }
  return specs;
}

template <class Named>  // Parameter, ModelBuffer
std::vector<Buffer> values_of(std::span<const Named> all) {
  std::vector<Buffer> values;
  for (const Named& each : all) values.push_back(each.value);
  return values;
}

std::shared_ptr<ProcessGroup> given(std::shared_ptr<ProcessGroup> group) {
  if (group != nullptr) return group;
  throw std::invalid_argument(
      "[ddp] DistributedDataParallel needs a process group, but got a null pointer");
}

}  // namespace

DistributedDataParallel::Impl::Impl(std::shared_ptr<ProcessGroup> group,
                                    std::vector<Parameter> parameters, DdpOptions options)
    : group_(given(std::move(group))),
      parameters_(checked(*group_, std::move(parameters), options)),
      options_(std::move(options)),
      alone_(group_->world_size() == 1),
      control_label_(group_->recorder().labels().add("control vector")),
      buffers_label_(group_->recorder().labels().add("buffers of a model")),
      control_(
          *group_, group_->rank() != 0
                       ? ControlVector::AfterCount()
                       : [this](const ControlLedger& ledger) { log_warnings(ledger); }),
      reducer_(*group_, gradient_specs(parameters_),
               {.buckets = options_.buckets,
                .make_hook = options_.hook,
                .tail_count = options_.unused == UnusedParameters::kError
                                  ? 0
                                  : ParameterUse::elements(parameters_.size()),
                .flat_gradients = options_.flat_gradients,
                .record_times = options_.record_times,
                .divisor = options_.fold_scale ? nullptr : control_.divisor()},
               [this](std::size_t b, Stream stream) { before_launch(b, stream); }),
      callers_(parameters_, reducer_),
      factor_(*group_, options_),
      marks_(*group_, reducer_, parameters_, options_.unused),
      outcome_(control_, group_->world_size()),
      warnings_(group_->state().names, options_.non_finite, options_.fold_scale && !alone_),
      accounts_(*group_, reducer_) {
  reducer_.set_labels(add_bucket_labels(group_->recorder(), reducer_.layout(), parameters_));
  make_checks();
  sketcher_ =
      StepSketcher::from_environment(*group_, parameters_, gradients(), !options_.buffers.empty());
  if (sketcher_) options_.fingerprint_every = 1;  // what is proved must hold on all ranks
  if (alone_) return;
  const ScopedIssuer issued(*group_, reducer_.issuer());
  const ScopedLabel labelled(*group_, kEngineConstruction);
  check_equal_models(*group_, parameters_, options_, reducer_.hook());
  const std::vector<Buffer> buffers = values_of<ModelBuffer>(options_.buffers);
  std::vector<Buffer> model = values_of<Parameter>(parameters_);
  model.insert(model.end(), buffers.begin(), buffers.end());
  broadcast_values(*group_, model);
  buffers_ = std::make_unique<PackedBroadcast>(*group_, buffers);
  same_data_ = std::make_unique<SameDataCheck>(*group_, reducer_);
  if (options_.fingerprint_every > 0) {
    replicas_ =
        std::make_unique<ReplicaCheck>(*group_, reducer_.issuer(), control_, parameters_, options_);
    replicas_->take_buffers({});
    // The first forward pass may change them on a stream that does not wait for this one.
    if (group_->device().is_cuda()) cu::synchronize_device(group_->device());
  }
}

DistributedDataParallel::Impl::~Impl() {
  if (state_ != State::kIdle && !alone_) group_->recorder().leave_step();
  reducer_.release();
  const bool is_held = state_ == State::kIdle && !passes_.reduces();
  if (!is_held || group_->rank() != 0 || std::uncaught_exceptions() > 0) return;
  logging::warning(passes_.is_guarded()
                       ? "[ddp] the last backward passes were never reduced, because a no_sync() "
                         "guard held back all of them: each rank had its own gradients"
                       : "[ddp] the last backward passes were never reduced, because accumulate() "
                         "announced more: their gradients are lost");
}

Buffer DistributedDataParallel::Impl::gradient(std::size_t i) const {
  check_index("gradient", i);
  const Buffer& own = parameters_[i].grad;
  return own.data != nullptr ? own : reducer_.gradient(i);
}

void DistributedDataParallel::Impl::continue_after(std::int64_t steps) {
  if (step_ > 0 || state_ != State::kIdle) {
    throw std::logic_error("[ddp] continue_after was called after the first begin_step");
  }
  if (steps < 0) {
    throw std::invalid_argument("[ddp] continue_after(" + std::to_string(steps) +
                                "): the number of steps must not be negative");
  }
  steps_before_ = static_cast<std::uint64_t>(steps);
  if (replicas_) replicas_->continue_after(steps_before_);
}

// A loop inside a guard trains as many models as there are ranks, and its steps never end, so that
// nothing compares them.
void DistributedDataParallel::Impl::warn_of_endless_guard() const {
  constexpr std::int64_t kMany = 1000;
  if (!passes_.is_guarded() || passes_.guarded_in_a_row() != kMany || group_->rank() != 0 ||
      group_->world_size() == 1)
    return;
  logging::warning(
      "[ddp] a no_sync() guard has kept 1000 backward passes in a row from being reduced: if an "
      "optimizer steps meanwhile, each rank trains a model of its own");
}

[[gnu::hot]] double DistributedDataParallel::Impl::begin_step(const StepOptions& step) {
  if (state_ != State::kIdle) {
    group_->check_unbroken();  // that may be why
    refuse_call("begin_step was called before wait",
                "; an engine whose step was left by an exception can only be destroyed");
  }
  check_step(*group_, step);
  passes_.begin();
  warn_of_endless_guard();
  if (passes_.begins_step()) {
    step_span_.begin("ddp step");
    open_step();
  }
  backward_span_.begin("ddp backward");
  state_ = State::kOpen;
  group_->state().begin_step(number_of_step());
  note_pass(step);
  control_.reset(step.samples, factor_.unit());
  reducer_.begin(pass_);
  return pass_.factors.loss;
}

void DistributedDataParallel::Impl::vote(std::size_t slot, bool in_favour) {
  check_open("vote");
  bool& vote = own_.votes[checked_vote(slot)];
  vote = vote || in_favour;
}

[[gnu::hot]] void DistributedDataParallel::Impl::mark_ready(std::size_t i, Stream stream) {
  if (state_ == State::kIdle) refuse_call("mark_ready was called before begin_step");
  check_index("mark_ready", i);
  if (!reducer_.accepts(i)) marks_.refuse(i, number_of_step());
  state_ = State::kReducing;
  if (pass_.reduces) callers_.copy_in(i, stream);
  if (finite_ && pass_.step_samples > 0) finite_->scan(i, gradient(i), stream);
  reducer_.mark_ready(i, stream);
}

[[gnu::hot]] void DistributedDataParallel::Impl::wait(Stream stream) {
  if (state_ == State::kIdle) refuse_call("wait was called before begin_step");
  backward_span_.end();
  marks_.check_all_ready(number_of_step(), pass_.samples);
  stream_ = stream;
  if (pass_.reduces) {
    accounts_.backward_ended(stream);
    reduce(stream);
    accounts_.ended(stream, pass_.step_samples == 0);
    step_span_.end();
    ++statistics_.steps;
  } else {
    hold(stream);
  }
  if (!alone_) group_->recorder().end_step();  // the recorder of a world of one records nothing
  passes_.end();
  ++statistics_.passes;
  state_ = State::kIdle;
}

void DistributedDataParallel::Impl::accumulate(int passes) {
  if (state_ != State::kIdle || !passes_.reduces()) {
    throw std::logic_error(
        "[ddp] accumulate was called in the middle of a step, whose last backward pass has not "
        "come; if data can end early, announce only the passes that are left");
  }
  passes_.announce(passes);
}

const double* DistributedDataParallel::Impl::gradient_scale() {
  check_closed("gradient_scale");
  warnings_.note_scale_asked();
  if (!passes_.reduces()) refuse_unreduced();
  if (statistics_.steps == 0) refuse_call("gradient_scale was called before the first step");
  return folded_scale();
}

void DistributedDataParallel::Impl::begin_forward(Stream stream) {
  if (options_.buffer_sync == BufferSync::kEveryForward) broadcast_buffers(stream);
}

void DistributedDataParallel::Impl::broadcast_buffers(Stream stream) {
  if (state_ != State::kIdle) {
    throw std::logic_error("[ddp] broadcast_buffers was called in the middle of a step");
  }
  if (!buffers_ || options_.buffer_sync == BufferSync::kNever) return;
  const ScopedIssuer issued(*group_, reducer_.issuer());
  const ScopedKnownLabel labelled(*group_, buffers_label_);
  static_cast<void>(buffers_->run(stream));
  if (replicas_) replicas_->take_buffers(stream);
}

// Ranks have the numbers that they have in the job.
StepCosts DistributedDataParallel::Impl::step_costs() {
  StepCosts costs = accounts_.costs();
  costs.on_cpu = !group_->device().is_cuda();
  const auto rename = [&](int& rank) { rank = group_->state().config.job_rank(rank); };
  rename(costs.stalls.rank);
  rename(costs.most_often_last.rank);
  for (Straggler& straggler : costs.stragglers) rename(straggler.rank);
  return costs;
}

StepTimes DistributedDataParallel::Impl::times() {
  if (reducer_.recorder() != nullptr) return reducer_.recorder()->times();
  throw std::logic_error("[ddp] times needs DdpOptions::record_times, which is off");
}

DistributedDataParallel::Statistics DistributedDataParallel::Impl::statistics() const {
  Statistics result = statistics_;
  result.bucket_launches = reducer_.launches();
  result.gradient_copies = callers_.copies();
  return result;
}

void DistributedDataParallel::Impl::make_checks() {
  const bool is_static = options_.unused == UnusedParameters::kStatic;
  if (is_static) reducer_.learn_uses();
  if (options_.unused != UnusedParameters::kError)
    use_ = std::make_unique<ParameterUse>(*group_, reducer_, is_static);
  if (options_.non_finite != NonFinite::kIgnore) {
    finite_ = std::make_unique<FiniteCheck>(*group_, reducer_, parameters_, options_);
  }
}

void DistributedDataParallel::Impl::check_open(const char* call) const {
  if (state_ == State::kOpen) return;
  throw std::logic_error(
      "[ddp] " + std::string(call) +
      (state_ == State::kIdle ? " was called before begin_step" : " was called after mark_ready") +
      ": call it between begin_step and the first mark_ready of a pass");
}

void DistributedDataParallel::Impl::refuse_unreduced() const {
  throw std::logic_error("[ddp] " + group_->state().names.rank(group_->rank()) +
                         (passes_.is_guarded()
                              ? ": the gradients are not reduced; the last backward pass of a step "
                                "must be outside no_sync()"
                              : ": the gradients are not reduced; accumulate() announced further "
                                "backward passes for this step"));
}

void DistributedDataParallel::Impl::refuse_in_pass(const char* call) {
  refuse_call(std::string(call) + " was called before wait");
}

void DistributedDataParallel::Impl::refuse_index(const char* call, std::size_t i) const {
  throw std::invalid_argument("[ddp] " + std::string(call) + '(' + std::to_string(i) +
                              "), but the model has " + std::to_string(parameters_.size()) +
                              " parameters, 0 to " + std::to_string(parameters_.size() - 1));
}

std::vector<Buffer> DistributedDataParallel::Impl::gradients() const {
  std::vector<Buffer> result;
  for (std::size_t i = 0; i < parameters_.size(); ++i) result.push_back(gradient(i));
  return result;
}

[[gnu::hot]] void DistributedDataParallel::Impl::open_step() {
  ++step_;
  if (finite_) finite_->begin_step(stream_);
  own_ = {.is_active = false};
  if (replicas_) own_.fingerprint = replicas_->begin_step(step_, stream_);
  if (same_data_) own_.gradient_fingerprint = same_data_->fingerprint();
  own_.times = accounts_.begin_step(step_, control_.arrived_ledger());
}

// Adds what the caller says about one pass to the state of its step.
void DistributedDataParallel::Impl::note_pass(const StepOptions& pass) {
  const double samples_before = passes_.begins_step() ? 0 : pass_.step_samples;
  pass_ = {.begins_step = passes_.begins_step(),
           .reduces = passes_.reduces(),
           .samples = pass.samples,
           .step_samples = samples_before + pass.samples,
           .factors = factor_.begin_pass(pass.samples, passes_.is_whole_step())};
  own_.is_active = own_.is_active || pass.is_active;
  if (pass.is_active) {  // a rank whose data ran out after an earlier pass tells no epoch
    own_.epoch = pass.epoch;
    own_.plan_fingerprint = pass.plan_fingerprint;
  }
  own_.asks_to_stop = own_.asks_to_stop || pass.asks_to_stop;
  accounts_.add_data_wait(pass.data_seconds);
}

void DistributedDataParallel::Impl::before_launch(std::size_t b, Stream stream) {
  if (b == 0) launch_control(stream);
  if (same_data_ && SameDataCheck::compares(step_) && pass_.step_samples > 0) {
    same_data_->take(b, stream);
  }
  if (use_ && b + 1 == reducer_.layout().buckets.size()) use_->write(stream);
}

void DistributedDataParallel::Impl::launch_control(Stream stream) {
  const ScopedKnownLabel labelled(*group_, control_label_);
  control_.launch(own_, stream);
}

// What rank 0 has learned about all ranks from a step.
void DistributedDataParallel::Impl::log_warnings(const ControlLedger& ledger) {
  warnings_.look(ledger, steps_before_, statistics_.skipped_steps);
  const std::string warning = same_data_ ? same_data_->warning(ledger) : "";
  if (!warning.empty()) logging::warning(warning);
}

[[gnu::hot]] void DistributedDataParallel::Impl::reduce(Stream stream) {
  if (reducer_.is_held()) callers_.copy_in_held(stream);
  reducer_.end_backward(stream);
  reducer_.wait(stream);
  if (use_) use_->read(stream);
  if (same_data_) same_data_->end_step(stream);
  finish_control(stream);
  if (alone_ && pass_.step_samples == 0) log_warnings(control_.arrived_ledger());
  if (replicas_) replicas_->end_step(stream, pass_.step_samples > 0);
  if (pass_.factors.divides && !options_.fold_scale) average(stream);
  const bool is_finite = !finite_ || finite_->check(number_of_step(), stream);
  if (!is_finite) ++statistics_.skipped_steps;
  callers_.copy_back(stream);
  outcome_.end_step(
      {.is_active = own_.is_active, .has_samples = pass_.step_samples > 0, .is_finite = is_finite});
  if (sketcher_ && is_finite) sketch_step(stream);  // a skipped step is no part of the model
}

// Ends a pass that does not reduce: its gradients stay in place for the next pass to add to.
void DistributedDataParallel::Impl::hold(Stream stream) {
  callers_.zero_unwritten(stream);
  reducer_.end_backward(stream);
  reducer_.wait(stream);
  control_.carry(stream);
  if (pass_.step_samples == 0) callers_.copy_back(stream);
  reducer_.order_producers_behind(stream);
}

// In a world of one no bucket has launched the control vector. It is needed only if the gradients
// are divided, because the divisor is read from it.
void DistributedDataParallel::Impl::finish_control(Stream stream) {
  if (!pass_.factors.divides) return control_.finish_alone(own_, stream);
  if (alone_) launch_control(stream);
  control_.wait(stream);
}

// Turns the sums over ranks (of n_r / n_ref times a mean, or of sums) into the mean over all
// samples, where the collectives have not done so.
void DistributedDataParallel::Impl::average(Stream stream) {
  for (std::size_t b = 0; b < reducer_.layout().buckets.size(); ++b) {
    if (reducer_.divides(b)) continue;
    scale_by_value_at(reducer_.bucket(b), control_.gradient_scale(), stream);
  }
}

void DistributedDataParallel::Impl::sketch_step(Stream stream) {
  const double* folded = folded_scale();
  const double scale =
      folded == nullptr
          ? 1
          : item({const_cast<double*>(folded), 1, DType::kFloat64, group_->device()}, stream);
  sketcher_->add(number_of_step(), outcome_.summary().samples, scale, stream);
}

}  // namespace ddp
