// SPDX-License-Identifier: MIT
#include "ddp/engine/distributed_data_parallel.h"

#include <optional>
#include <stdexcept>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"
#include "ddp/cuda/profiler_span.h"
#include "ddp/engine/control_vector.h"
#include "ddp/engine/finite_check.h"
#include "ddp/engine/model_check.h"
#include "ddp/engine/parameter_use.h"
#include "ddp/engine/reducer.h"
#include "ddp/engine/replica_check.h"

namespace ddp {
namespace {

std::vector<GradientSpec> gradient_specs(const std::vector<Parameter>& parameters) {
  std::vector<GradientSpec> specs;
  for (const Parameter& parameter : parameters) {
    specs.push_back({parameter.value.count, parameter.value.dtype});
  }
  return specs;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

class DistributedDataParallel::Impl {
 public:
  Impl(std::shared_ptr<ProcessGroup> group, std::vector<Parameter> parameters, DdpOptions options)
      : group_(std::move(group)),
        parameters_(checked(*group_, std::move(parameters))),
        options_(std::move(options)),
        alone_(group_->world_size() == 1),
        control_(*group_),
        reducer_(*group_, gradient_specs(parameters_), options_.buckets, options_.hook,
                 [this](Stream stream) { control_.launch(own_, stream); }) {
    if (!(options_.nominal_samples > 0)) {
      throw std::invalid_argument("[ddp] nominal_samples must be positive");
    }
    if (options_.record_times) reducer_.start_recording();
    make_checks();
    if (alone_) return;
    factors_ = allocate_factors(group_->device());
    check_equal_models(*group_, parameters_, options_, reducer_.hook());
    broadcast_model(*group_, parameters_, options_.buffers);
    if (options_.fingerprint_every > 0) {
      replicas_.emplace(*group_, parameters_, options_.buffers);
      replicas_->take_buffers({});
    }
  }

  double begin_step(const StepOptions& step) {
    if (state_ != State::kIdle) throw std::logic_error("[ddp] begin_step before wait");
    if (!(step.samples >= 0)) {
      throw std::invalid_argument("[ddp] begin_step with " + std::to_string(step.samples) +
                                  " samples");
    }
    const bool begins = synchronized_;
    if (begins) step_span_ = cu::ProfilerSpan("ddp step");
    backward_span_ = cu::ProfilerSpan("ddp backward");
    if (begins) open_step();
    state_ = State::kOpen;
    samples_ = step.samples;
    step_samples_ += step.samples;
    own_.is_active = own_.is_active || step.is_active;
    own_.asks_to_stop = own_.asks_to_stop || step.asks_to_stop;
    data_seconds_ += step.data_seconds;
    synchronized_ = no_sync_guards_ == 0 && passes_left_ <= 1;
    const bool accumulates = !begins || !synchronized_;
    divides_ = !alone_ || accumulates || options_.gradient_kind == GradientKind::kSum;
    if (accumulates && options_.scale_at_ready) {
      throw std::logic_error("[ddp] scale_at_ready does not work with accumulation");
    }
    reducer_.begin(synchronized_ ? Reduction::kNow : Reduction::kLater);
    if (step_samples_ == 0) reducer_.contribute_zeros();
    return open_control(step.samples);
  }

  void accumulate(int passes) {
    if (passes < 1) {
      throw std::invalid_argument("[ddp] accumulate(" + std::to_string(passes) + ")");
    }
    if (state_ != State::kIdle || !synchronized_) {
      throw std::logic_error("[ddp] accumulate in the middle of a step");
    }
    passes_left_ = passes;
  }

  void add_no_sync_guard() { ++no_sync_guards_; }
  void remove_no_sync_guard() { --no_sync_guards_; }
  bool is_synchronized() const { return synchronized_; }

  template <class Value>
  void record_metric(std::size_t slot, const Value& value, double weight) {
    check_open("record_metric");
    control_.add_metric(slot, value, weight);
  }

  void vote(std::size_t slot, bool in_favour) {
    check_open("vote");
    own_.votes.at(slot) = in_favour;
  }

  void mark_ready(std::size_t i, Stream stream) {
    if (state_ == State::kIdle) throw std::logic_error("[ddp] mark_ready before begin_step");
    if (!reducer_.accepts(i)) refuse_mark(i);
    state_ = State::kReducing;
    if (synchronized_) copy_in(i, stream);
    if (scans_ && samples_ > 0) finite_->scan(i, reducer_.gradient(i), stream);
    reducer_.mark_ready(i, stream);
  }

  void wait(Stream stream) {
    if (state_ == State::kIdle) throw std::logic_error("[ddp] wait before begin_step");
    backward_span_.end();
    check_all_ready();
    own_times_.work_seconds = seconds_since(last_end_);
    own_times_.data_seconds = data_seconds_;
    stream_ = stream;
    if (synchronized_) {
      reduce(stream);
      step_span_.end();
      ++statistics_.steps;
      last_end_ = Clock::now();
    } else {
      hold(stream);
    }
    if (passes_left_ > 0) --passes_left_;
    ++statistics_.passes;
    state_ = State::kIdle;
  }

  const double* gradient_scale() const {
    if (!synchronized_) {
      throw std::logic_error("[ddp] rank " + std::to_string(group_->rank()) +
                             ": the gradients are not reduced; the last backward pass of a step "
                             "must be outside no_sync()");
    }
    return divides_ && options_.fold_scale ? control_.gradient_scale() : nullptr;
  }

  bool is_used(std::size_t i) { return !use_ || use_->is_used(i); }

  // A rank that was active itself need not ask the others.
  bool is_over() {
    return statistics_.steps > 0 && !own_.is_active && control_.read().active_ranks == 0;
  }
  bool should_step() { return synchronized_ && is_finite_ && !is_over(); }
  bool stop_requested() { return control_.read().stop_requests > 0; }
  bool agreed(std::size_t slot, Quorum quorum) {
    const int wanted = quorum == Quorum::kAny ? 1 : group_->world_size();
    return control_.read().votes.at(slot) >= wanted;
  }

  void begin_forward(Stream stream) {
    if (options_.buffer_sync == BufferSync::kEveryForward) broadcast_buffers(stream);
  }

  void broadcast_buffers(Stream stream) {
    if (state_ != State::kIdle) throw std::logic_error("[ddp] broadcast_buffers within a step");
    if (alone_ || options_.buffer_sync == BufferSync::kNever) return;
    for (const ModelBuffer& buffer : options_.buffers) {
      group_->broadcast(buffer.value, 0, stream).wait(stream);
    }
    if (replicas_) replicas_->take_buffers(stream);
  }

  StepSummary summary() { return control_.read(); }
  StepSummary take_totals() { return control_.take_totals(); }

  StepTimes times() {
    if (reducer_.recorder() != nullptr) return reducer_.recorder()->times();
    throw std::logic_error("[ddp] times: not recorded (DdpOptions::record_times)");
  }

  Statistics statistics() const {
    Statistics result = statistics_;
    result.bucket_launches = reducer_.launches();
    return result;
  }

  const std::shared_ptr<ProcessGroup>& group() const { return group_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Reducer& reducer() const { return reducer_; }

 private:
  enum class State { kIdle, kOpen, kReducing };

  // On CUDA kernels read it from pinned memory. The control vector keeps the host from beginning a
  // step before the first bucket of the step before the last is on its way, so with three places
  // none is written that is still to be read.
  static constexpr std::size_t kFactors = 3;

  static Allocation allocate_factors(Device device) {
    constexpr std::size_t kBytes = kFactors * sizeof(double);
    if (!device.is_cuda()) return allocate_host(kBytes);
    const cu::DeviceGuard guard(device);
    return cu::allocate_pinned(kBytes);
  }
  const double* keep(double factor) {
    double* place = static_cast<double*>(factors_.data()) + statistics_.steps % kFactors;
    *place = factor;
    return place;
  }

  void make_checks() {
    if (options_.unused == UnusedParameters::kStatic) reducer_.learn_uses();
    if (options_.unused != UnusedParameters::kError) use_.emplace(*group_, parameters_.size());
    if (options_.non_finite == NonFinite::kIgnore) return;
    finite_.emplace(*group_, parameters_.size());
    for (std::size_t b = 0; b < reducer_.layout().buckets.size(); ++b) {
      buckets_.push_back(reducer_.bucket(b));
    }
  }

  void check_open(const char* call) const {
    if (state_ == State::kOpen) return;
    throw std::logic_error("[ddp] " + std::string(call) +
                           " outside begin_step and the first mark_ready");
  }

  void open_step() {
    check_replicas_of_last_step();
    log_who_ran_out();
    own_ = {.is_active = false, .fingerprint = own_.fingerprint, .times = own_times_};
    take_fingerprint();
    step_samples_ = 0;
    data_seconds_ = 0;
    scans_ = finite_ && (options_.scan_gradients || !is_finite_);
    if (scans_) finite_->begin_scan(stream_);
  }

  // Starts the pass's control vector; returns the factor for the caller's loss.
  double open_control(double samples) {
    const bool sums = options_.gradient_kind == GradientKind::kSum;
    control_.reset(samples, sums ? 1 : options_.nominal_samples);
    const double factor = sums || !divides_ ? 1 : samples / options_.nominal_samples;
    if (!options_.scale_at_ready) return factor;
    if (factor != 1) reducer_.contribute_scaled(keep(factor));
    return 1;
  }

  [[nodiscard]] bool is_on_device() const { return group_->device().is_cuda(); }

  // The fingerprint of the values that a step begins with rides in that step's control vector. On
  // CUDA in the next one's, when the device has it ready, and so no host waits.
  void take_fingerprint() {
    if (!replicas_) return;
    const auto every = static_cast<std::uint64_t>(options_.fingerprint_every);
    const std::uint64_t step = statistics_.steps;
    const std::uint64_t delay = is_on_device() ? 1 : 0;
    if (delay == 1 && step >= 1 && (step - 1) % every == 0) {
      own_.fingerprint = replicas_->combined();
    }
    if (step % every != 0) return;
    replicas_->take_parameters(step, stream_);
    if (delay == 0) own_.fingerprint = replicas_->combined();
  }

  void check_replicas() {
    if (!replicas_ || control_.replicas_agree()) return;
    throw MismatchError("[ddp] replicas have diverged: " + replicas_->difference());
  }

  // On CUDA, where the host does not wait for a step's control vector within the step.
  void check_replicas_of_last_step() {
    if (!replicas_ || !is_on_device() || statistics_.steps < 2) return;
    const auto every = static_cast<std::uint64_t>(options_.fingerprint_every);
    if ((statistics_.steps - 2) % every == 0) check_replicas();
  }

  void log_who_ran_out() {
    if (alone_ || group_->rank() != 0 || has_logged_who_ran_out_) return;
    const int active = control_.latest().active_ranks;
    if (control_.steps_arrived() == 0 || active == 0 || active == group_->world_size()) return;
    std::string ranks;
    for (int rank = 0; rank < group_->world_size(); ++rank) {
      if (!control_.is_active(rank)) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    }
    log::warning("[ddp] rank " + ranks + " ran out of data at step " +
                 std::to_string(control_.steps_arrived() - 1) +
                 " and goes on with empty batches until all ranks have");
    has_logged_who_ran_out_ = true;
  }

  void reduce(Stream stream) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!reducer_.is_marked(i) && reducer_.is_held(i)) copy_in(i, stream);
    }
    reducer_.wait(stream);
    agree_on_use(stream);
    if (alone_ && step_samples_ == 0) zero_gradients(stream);
    finish_control(stream);
    if (!is_on_device()) check_replicas();
    if (divides_ && !options_.fold_scale) average(stream);
    if (finite_) check_finite(stream);
    copy_back(stream);
  }

  // Leaves the gradients for the next pass to add to.
  void hold(Stream stream) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Buffer& own = parameters_[i].grad;
      const bool has_content = reducer_.is_marked(i) || reducer_.is_held(i);
      if (own.data != nullptr && !has_content) fill(own, 0, stream);
    }
    reducer_.wait(stream);
    control_.carry(stream);
    if (step_samples_ > 0) return;
    reducer_.hold_zeros(stream);
    copy_back(stream);
  }

  // A gradient in the caller's memory.
  void copy_in(std::size_t i, Stream stream) {
    const Buffer& own = parameters_[i].grad;
    if (own.data == nullptr) return;
    copy(own, reducer_.gradient(i), stream);
    ++statistics_.gradient_copies;
  }

  // With static use only until every rank has seen its own.
  void agree_on_use(Stream stream) {
    if (!use_ || is_use_settled_) return;
    use_->agree(reducer_.used(), reducer_.is_learning(), stream);
    is_use_settled_ = options_.unused == UnusedParameters::kStatic && !use_->is_unsettled();
  }

  // Alone there is nobody to add up with, but what divides reads the result where that would be.
  void finish_control(Stream stream) {
    if (alone_ && !divides_) return control_.settle(own_, stream);
    if (alone_) control_.launch(own_, stream);
    control_.wait(stream);
  }

  void refuse_mark(std::size_t i) const {
    const bool is_static = options_.unused == UnusedParameters::kStatic;
    throw std::logic_error("[ddp] parameter '" + parameters_[i].name +
                           (is_static ? "' was marked ready more often than in the first step"
                                      : "' was marked ready twice in this step"));
  }

  // A rank without samples may have run no backward at all.
  void check_all_ready() const {
    const bool may_miss = options_.unused == UnusedParameters::kZero || reducer_.is_learning();
    if (samples_ == 0 || may_miss) return;
    std::string names;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (reducer_.is_ready(i) || !reducer_.is_expected(i)) continue;
      names += (names.empty() ? "'" : ", '") + parameters_[i].name + "'";
    }
    if (names.empty()) return;
    const std::string text = "[ddp] rank " + std::to_string(group_->rank()) + ", step " +
                             std::to_string(statistics_.steps) +
                             (options_.unused == UnusedParameters::kStatic
                                  ? ": backward gave fewer gradients than in the first step for "
                                  : ": backward gave no gradient for ") +
                             names;
    group_->abort(text);  // the others wait for this rank's buckets
    throw std::logic_error(text);
  }

  // All ranks see the same sums, so they decide alike.
  void check_finite(Stream stream) {
    is_finite_ = !finite_->find(buckets_, stream);
    if (is_finite_) return;
    std::vector<std::string> names;
    std::vector<Buffer> gradients;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      names.push_back(parameters_[i].name);
      gradients.push_back(reducer_.gradient(i));
    }
    std::string text = "[ddp] step " + std::to_string(statistics_.steps);
    if (const auto bad = finite_->find(gradients, stream)) {
      text += ": the reduced gradient of '" + names[*bad] + "' is not finite";
    }
    text += where_from(names, stream);
    if (options_.non_finite == NonFinite::kStop) throw NonFiniteError(text);
    ++statistics_.skipped_steps;
    if (group_->rank() == 0) log::warning(text + "; the step is skipped");
  }

  std::string where_from(std::span<const std::string> names, Stream stream) {
    if (!scans_) return " (DdpOptions::scan_gradients names the rank)";
    const std::string culprits = finite_->culprits(names, stream);
    return culprits.empty() ? "; every rank's was, before they were added up"
                            : "; it came from " + culprits;
  }

  // What was summed over ranks (n_r / n_ref times a mean, or a sum) becomes the mean over all
  // samples.
  void average(Stream stream) {
    for (std::size_t b = 0; b < reducer_.layout().buckets.size(); ++b) {
      scale(reducer_.bucket(b), control_.gradient_scale(), stream);
    }
  }

  void zero_gradients(Stream stream) {
    for (std::size_t b = 0; b < reducer_.layout().buckets.size(); ++b) {
      fill(reducer_.bucket(b), 0, stream);
    }
  }

  void copy_back(Stream stream) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Buffer& own = parameters_[i].grad;
      if (own.data == nullptr) continue;
      copy(reducer_.gradient(i), own, stream);
      ++statistics_.gradient_copies;
    }
  }

  std::shared_ptr<ProcessGroup> group_;
  std::vector<Parameter> parameters_;
  DdpOptions options_;
  bool alone_;
  ControlVector control_;
  Reducer reducer_;
  Allocation factors_;  // for scale_at_ready, with peers only
  // What was asked for, and costs nothing otherwise.
  std::optional<ParameterUse> use_;
  std::optional<FiniteCheck> finite_;
  std::optional<ReplicaCheck> replicas_;
  std::vector<Buffer> buckets_;  // for finite_
  State state_ = State::kIdle;
  double samples_ = 0;        // of this rank in this pass
  double step_samples_ = 0;   // and in all passes of the step so far
  bool synchronized_ = true;  // the pass reduces, or the last one did
  bool divides_ = false;      // the step's gradients are multiplied by the control vector's scale
  bool scans_ = false;        // the step's gradients are looked at before they are reduced
  bool is_finite_ = true;     // what the last step reduced
  bool is_use_settled_ = false;
  bool has_logged_who_ran_out_ = false;
  int no_sync_guards_ = 0;
  int passes_left_ = 0;  // of what accumulate() announced
  RankState own_;        // in this step
  RankTimes own_times_;  // of the last one
  double data_seconds_ = 0;
  Clock::time_point last_end_ = Clock::now();  // of the last step
  Stream stream_;                              // of the last wait()
  Statistics statistics_;
  cu::ProfilerSpan step_span_;
  cu::ProfilerSpan backward_span_;
};

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<ProcessGroup> group,
                                                 std::vector<Parameter> parameters,
                                                 DdpOptions options)
    : impl_(std::make_unique<Impl>(std::move(group), std::move(parameters), std::move(options))) {}

DistributedDataParallel::~DistributedDataParallel() = default;

ProcessGroup& DistributedDataParallel::group() const { return *impl_->group(); }

std::size_t DistributedDataParallel::parameter_count() const { return impl_->parameters().size(); }

Buffer DistributedDataParallel::gradient(std::size_t i) const {
  const Buffer& own = impl_->parameters().at(i).grad;
  return own.data != nullptr ? own : impl_->reducer().gradient(i);
}

const BucketLayout& DistributedDataParallel::layout() const { return impl_->reducer().layout(); }

double DistributedDataParallel::begin_step(const StepOptions& options) {
  return impl_->begin_step(options);
}

void DistributedDataParallel::record_metric(std::size_t slot, double value, double weight) {
  impl_->record_metric(slot, value, weight);
}

void DistributedDataParallel::record_metric(std::size_t slot, const Buffer& value, double weight) {
  impl_->record_metric(slot, value, weight);
}

void DistributedDataParallel::vote(std::size_t slot, bool in_favour) {
  impl_->vote(slot, in_favour);
}

void DistributedDataParallel::mark_ready(std::size_t i, Stream stream) {
  impl_->mark_ready(i, stream);
}

void DistributedDataParallel::wait(Stream stream) { impl_->wait(stream); }

const double* DistributedDataParallel::gradient_scale() const { return impl_->gradient_scale(); }

void DistributedDataParallel::accumulate(int passes) { impl_->accumulate(passes); }

DistributedDataParallel::NoSync DistributedDataParallel::no_sync() {
  impl_->add_no_sync_guard();
  return NoSync(impl_.get());
}

DistributedDataParallel::NoSync::~NoSync() {
  if (impl_ != nullptr) impl_->remove_no_sync_guard();
}

bool DistributedDataParallel::is_synchronized() const { return impl_->is_synchronized(); }

bool DistributedDataParallel::is_used(std::size_t i) const { return impl_->is_used(i); }

bool DistributedDataParallel::is_over() const { return impl_->is_over(); }

bool DistributedDataParallel::should_step() const { return impl_->should_step(); }

bool DistributedDataParallel::stop_requested() const { return impl_->stop_requested(); }

bool DistributedDataParallel::agreed(std::size_t slot, Quorum quorum) const {
  return impl_->agreed(slot, quorum);
}

void DistributedDataParallel::begin_forward(Stream stream) { impl_->begin_forward(stream); }

void DistributedDataParallel::broadcast_buffers(Stream stream) { impl_->broadcast_buffers(stream); }

StepSummary DistributedDataParallel::summary() { return impl_->summary(); }

StepSummary DistributedDataParallel::take_totals() { return impl_->take_totals(); }

StepTimes DistributedDataParallel::times() { return impl_->times(); }

DistributedDataParallel::Statistics DistributedDataParallel::statistics() const {
  return impl_->statistics();
}

}  // namespace ddp
