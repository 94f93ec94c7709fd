// SPDX-License-Identifier: MIT
#include "ddp/engine/distributed_data_parallel.h"

#include <stdexcept>
#include <utility>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"
#include "ddp/engine/bucket_label.h"
#include "ddp/engine/model_check.h"
#include "ddp/engine/reducer.h"

namespace ddp {
namespace {

void check_parameter(const ProcessGroup& group, const Parameter& parameter) {
  const Buffer& value = parameter.value;
  const Buffer& grad = parameter.grad;
  const auto refuse = [&](const std::string& complaint) {
    throw std::invalid_argument("[ddp] parameter '" + parameter.name + "': " + complaint);
  };
  std::int64_t elements = 1;
  for (const std::int64_t extent : parameter.shape) elements *= extent;
  if (static_cast<std::size_t>(elements) != value.count) {
    refuse("its shape has " + std::to_string(elements) + " elements, its value is " +
           to_string(value));
  }
  if (value.device != group.device() || !is_floating_point(value.dtype)) {
    refuse("its value is " + to_string(value) + ", but must be floating-point on " +
           to_string(group.device()));
  }
  const bool alike =
      grad.count == value.count && grad.dtype == value.dtype && grad.device == value.device;
  if (grad.data != nullptr && !alike) {
    refuse("its gradient is " + to_string(grad) + ", its value " + to_string(value));
  }
}

std::vector<Parameter> checked(const ProcessGroup& group, std::vector<Parameter> parameters) {
  if (parameters.empty()) throw std::invalid_argument("[ddp] a model without parameters");
  for (const Parameter& parameter : parameters) check_parameter(group, parameter);
  return parameters;
}

std::vector<GradientSpec> gradient_specs(const std::vector<Parameter>& parameters) {
  std::vector<GradientSpec> specs;
  for (const Parameter& parameter : parameters) {
    specs.push_back({parameter.value.count, parameter.value.dtype});
  }
  return specs;
}

std::vector<FlightRecorder::Label> bucket_labels(FlightRecorder& recorder,
                                                 const BucketLayout& layout,
                                                 const std::vector<Parameter>& parameters) {
  std::vector<FlightRecorder::Label> labels;
  for (const BucketSpec& bucket : layout.buckets) {
    std::vector<std::string> names;
    for (const std::size_t i : bucket.parameters) names.push_back(parameters[i].name);
    labels.push_back(recorder.add_label(bucket_label(labels.size(), names)));
  }
  return labels;
}

}  // namespace

class DistributedDataParallel::Impl {
 public:
  Impl(std::shared_ptr<ProcessGroup> group, std::vector<Parameter> parameters, DdpOptions options)
      : group_(std::move(group)),
        parameters_(checked(*group_, std::move(parameters))),
        options_(std::move(options)),
        alone_(group_->world_size() == 1),
        control_label_(group_->recorder().add_label("control vector")),
        control_(*group_),
        reducer_(*group_, gradient_specs(parameters_), options_.buckets, [this](Stream stream) {
          const FlightRecorder::Labelled labelled(group_->recorder(), control_label_);
          control_.launch(stream);
        }) {
    if (!(options_.nominal_samples > 0)) {
      throw std::invalid_argument("[ddp] nominal_samples must be positive");
    }
    if (options_.record_times) reducer_.start_recording();
    reducer_.set_labels(bucket_labels(group_->recorder(), reducer_.layout(), parameters_));
    if (alone_) return;
    factors_ = allocate_factors(group_->device());
    check_equal_models(*group_, parameters_, options_);
    broadcast_model(*group_, parameters_, options_.buffers);
  }

  double begin_step(double samples) {
    if (state_ != State::kIdle) throw std::logic_error("[ddp] begin_step before wait");
    if (!(samples >= 0)) {
      throw std::invalid_argument("[ddp] begin_step with " + std::to_string(samples) + " samples");
    }
    state_ = State::kOpen;
    group_->recorder().begin_step(statistics_.steps + 1);
    samples_ = samples;
    const bool begins = synchronized_;
    step_samples_ = begins ? samples : step_samples_ + samples;
    synchronized_ = no_sync_guards_ == 0 && passes_left_ <= 1;
    const bool accumulates = !begins || !synchronized_;
    divides_ = !alone_ || accumulates || options_.gradient_kind == GradientKind::kSum;
    if (accumulates && options_.scale_at_ready) {
      throw std::logic_error("[ddp] scale_at_ready does not work with accumulation");
    }
    reducer_.begin(synchronized_ ? Reduction::kNow : Reduction::kLater);
    if (step_samples_ == 0) reducer_.contribute_zeros();
    return open_control(samples);
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
    if (state_ != State::kOpen) {
      throw std::logic_error("[ddp] record_metric outside begin_step and the first mark_ready");
    }
    control_.add_metric(slot, value, weight);
  }

  void mark_ready(std::size_t i, Stream stream) {
    if (state_ == State::kIdle) throw std::logic_error("[ddp] mark_ready before begin_step");
    if (reducer_.is_ready(i)) {
      throw std::logic_error("[ddp] parameter '" + parameters_[i].name +
                             "' was marked ready twice in this step");
    }
    state_ = State::kReducing;
    if (synchronized_) copy_in(i, stream);
    reducer_.mark_ready(i, stream);
  }

  void wait(Stream stream) {
    if (state_ == State::kIdle) throw std::logic_error("[ddp] wait before begin_step");
    check_all_ready();
    if (synchronized_) {
      reduce(stream);
      ++statistics_.steps;
    } else {
      hold(stream);
    }
    group_->recorder().end_step();
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

  void broadcast_buffers(Stream stream) {
    if (state_ != State::kIdle) throw std::logic_error("[ddp] broadcast_buffers within a step");
    if (alone_) return;
    for (const ModelBuffer& buffer : options_.buffers) {
      group_->broadcast(buffer.value, 0, stream).wait(stream);
    }
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

  // Starts the pass's control vector; returns the factor for the caller's loss.
  double open_control(double samples) {
    const bool sums = options_.gradient_kind == GradientKind::kSum;
    control_.reset(samples, sums ? 1 : options_.nominal_samples);
    const double factor = sums || !divides_ ? 1 : samples / options_.nominal_samples;
    if (!options_.scale_at_ready) return factor;
    if (factor != 1) reducer_.contribute_scaled(keep(factor));
    return 1;
  }

  void reduce(Stream stream) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!reducer_.is_ready(i) && reducer_.is_held(i)) copy_in(i, stream);
    }
    reducer_.wait(stream);
    if (alone_ && step_samples_ == 0) zero_gradients(stream);
    finish_control(stream);
    if (divides_ && !options_.fold_scale) average(stream);
    copy_back(stream);
  }

  // Leaves the gradients for the next pass to add to.
  void hold(Stream stream) {
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

  // Alone there is nobody to add up with, but what divides reads the result where that would be.
  void finish_control(Stream stream) {
    if (alone_ && !divides_) return control_.settle(stream);
    if (alone_) control_.launch(stream);
    control_.wait(stream);
  }

  // A rank without samples may have run no backward at all.
  void check_all_ready() const {
    if (samples_ == 0) return;
    std::string names;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!reducer_.is_ready(i)) names += (names.empty() ? "'" : ", '") + parameters_[i].name + "'";
    }
    if (names.empty()) return;
    const std::string text =
        "[ddp] rank " + std::to_string(group_->rank()) + ": backward gave no gradient for " + names;
    group_->abort(text);  // the others wait for this rank's buckets
    throw std::logic_error(text);
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
  FlightRecorder::Label control_label_;
  ControlVector control_;
  Reducer reducer_;
  Allocation factors_;  // for scale_at_ready, with peers only
  State state_ = State::kIdle;
  double samples_ = 0;        // of this rank in this pass
  double step_samples_ = 0;   // and in all passes of the step so far
  bool synchronized_ = true;  // the pass reduces, or the last one did
  bool divides_ = false;      // the step's gradients are multiplied by the control vector's scale
  int no_sync_guards_ = 0;
  int passes_left_ = 0;  // of what accumulate() announced
  Statistics statistics_;
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
  return impl_->begin_step(options.samples);
}

void DistributedDataParallel::record_metric(std::size_t slot, double value, double weight) {
  impl_->record_metric(slot, value, weight);
}

void DistributedDataParallel::record_metric(std::size_t slot, const Buffer& value, double weight) {
  impl_->record_metric(slot, value, weight);
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

void DistributedDataParallel::broadcast_buffers(Stream stream) { impl_->broadcast_buffers(stream); }

StepSummary DistributedDataParallel::summary() { return impl_->summary(); }

StepSummary DistributedDataParallel::take_totals() { return impl_->take_totals(); }

StepTimes DistributedDataParallel::times() { return impl_->times(); }

DistributedDataParallel::Statistics DistributedDataParallel::statistics() const {
  return impl_->statistics();
}

}  // namespace ddp
