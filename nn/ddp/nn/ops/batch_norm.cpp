// SPDX-License-Identifier: MIT
#include "ddp/kernels/batch_norm.h"

#include <stdexcept>
#include <utility>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/ops/normalisation_checks.h"

namespace ddp::nn {
namespace {

bool is_of_channels(const Shape& shape, std::size_t channels) {
  return shape == Shape{channels} || shape == Shape{0};
}

ChannelShape batch_norm_shape(const Shape& x, const Shape& weight, const Shape& bias) {
  if (x.rank() < 2 || !is_of_channels(weight, x[1]) || !is_of_channels(bias, x[1])) {
    throw std::invalid_argument("[nn] batch_norm: x is " + to_string(x) + ", weight " +
                                to_string(weight) + ", bias " + to_string(bias) +
                                ", expected [n, channels, ...], [channels] or [0] twice");
  }
  ChannelShape shape{.batch = x[0], .channels = x[1]};
  for (std::size_t i = 2; i < x.rank(); ++i) shape.plane *= x[i];
  return shape;
}

void check_statistics(const Shape& x, const Shape& mean, const Shape& variance) {
  const Shape channels{x[1]};
  if (mean == channels && variance == channels) return;
  throw std::invalid_argument("[nn] batch_norm: x is " + to_string(x) + ", mean " +
                              to_string(mean) + ", variance " + to_string(variance) +
                              ", expected [n, channels, ...], [channels] twice");
}

// One call of batch norm; the backward functions of its operands share it.
class BatchNormCall {
 public:
  BatchNormCall(Context& context, const Tensor& x, const Tensor& weight, const ChannelShape& shape)
      : context_(context), x_(x), weight_(weight), shape_(shape) {}

  void take_statistics_of_batch(const BatchNormTraining& options) {
    reducer_ = options.reducer;
    moments_ = context_.empty({moments_count(shape_.channels)}, DType::kFloat64);
    context_.run_any_float(cpu::channel_moments, cu::channel_moments, x_.buffer(),
                           moments_.buffer(), shape_);
    if (reducer_) {
      moments_ = reducer_->merge_moments(context_, moments_);
      check_merged_count();
    }
    if (options.running) {
      context_.run(cpu::track_statistics, cu::track_statistics, moments_.buffer(), options.momentum,
                   *options.running);
    }
    mean_ = of_channels();
    invstd_ = of_channels();
    context_.run(cpu::moments_to_statistics, cu::moments_to_statistics, moments_.buffer(),
                 options.eps, mean_.buffer(), invstd_.buffer());
  }

  // Copies the mean, since running statistics may change before the backward pass.
  void take_statistics(const Tensor& mean, const Tensor& variance, double eps) {
    mean_ = of_channels();
    copy(mean.buffer(), mean_.buffer(), context_.stream());
    invstd_ = of_channels();
    context_.run(cpu::variance_to_invstd, cu::variance_to_invstd, variance.buffer(), eps,
                 invstd_.buffer());
  }

  [[nodiscard]] Tensor forward(const Tensor& bias) {
    Tensor y = context_.empty(x_.shape(), x_.dtype());
    context_.run_any_float(cpu::batch_norm_forward, cu::batch_norm_forward, x_.buffer(), operands(),
                           bias.buffer(), y.buffer(), shape_);
    return y;
  }

  void backward_bias(const Buffer& grad_y, const GradientTarget& target) {
    context_.run(cpu::batch_norm_grad_bias, cu::batch_norm_grad_bias, sums(grad_y).buffer(),
                 target);
  }

  void backward_weight(const Buffer& grad_y, const GradientTarget& target) {
    context_.run(cpu::batch_norm_grad_weight, cu::batch_norm_grad_weight, sums(grad_y).buffer(),
                 invstd_.buffer(), target);
  }

  // The last backward function to run: it replaces the sums by those of all parts of the batch.
  void backward_x(const Buffer& grad_y, const GradientTarget& target) {
    const bool depends_on_x = moments_.count() > 0;
    const Tensor terms = of_channels(depends_on_x ? 2 : 0);
    if (depends_on_x) {
      const Tensor& all = sums(grad_y);
      if (reducer_) reducer_->sum(context_, all);
      context_.run(cpu::batch_norm_terms, cu::batch_norm_terms, all.buffer(),
                   moments_.buffer().slice(2 * shape_.channels, 1), invstd_.buffer(),
                   terms.buffer());
    }
    context_.run_any_float(cpu::batch_norm_grad_input, cu::batch_norm_grad_input, x_.buffer(),
                           grad_y, operands(), terms.buffer(), target, shape_);
  }

 private:
  // A part with several elements need not wait for the device: the whole batch has more than one.
  void check_merged_count() const {
    if (shape_.per_channel() > 1) return;
    if (item(moments_.buffer().slice(2 * shape_.channels, 1), context_.stream()) != 1) return;
    throw std::invalid_argument(
        "[nn] batch_norm: x has one element per channel on all ranks together, but training needs "
        "more: use a larger batch, or drop the last one");
  }

  // Of as many elements for each channel.
  [[nodiscard]] Tensor of_channels(std::size_t elements = 1) {
    return context_.empty({elements * shape_.channels}, ddp::widened(x_.dtype()));
  }
  [[nodiscard]] BatchNormOperands operands() const {
    return {mean_.buffer(), invstd_.buffer(), weight_.buffer()};
  }

  // Computed by the first backward function that needs it.
  const Tensor& sums(const Buffer& grad_y) {
    if (sums_.count() > 0) return sums_;
    sums_ = context_.empty({2 * shape_.channels}, DType::kFloat64);
    context_.run_any_float(cpu::batch_norm_sums, cu::batch_norm_sums, x_.buffer(), grad_y,
                           mean_.buffer(), sums_.buffer(), shape_);
    return sums_;
  }

  Context& context_;
  Tensor x_;
  Tensor weight_;
  ChannelShape shape_;
  std::shared_ptr<StatisticsReducer> reducer_;
  Tensor moments_;  // empty if the statistics are not the batch's
  Tensor mean_;
  Tensor invstd_;
  Tensor sums_;
};

Variable record(Tape& tape, std::shared_ptr<BatchNormCall> call, const Variable& x,
                const Variable& weight, const Variable& bias) {
  const auto edge = [&call](const Variable& input, auto gradient) {
    return Edge{input, [call, gradient](const Buffer& grad_y, const GradientTarget& target) {
                  ((*call).*gradient)(grad_y, target);
                }};
  };
  return tape.record(call->forward(bias.value()), edge(bias, &BatchNormCall::backward_bias),
                     edge(weight, &BatchNormCall::backward_weight),
                     edge(x, &BatchNormCall::backward_x));
}

}  // namespace

Variable batch_norm(Tape& tape, const Variable& x, const Variable& weight, const Variable& bias,
                    const BatchNormTraining& options) {
  if (must_widen(weight, bias)) {
    return batch_norm(tape, x, widened(tape, weight), widened(tape, bias), options);
  }
  check_eps("batch_norm", options.eps);
  check_momentum("batch_norm", options.momentum);
  const ChannelShape shape = batch_norm_shape(x.shape(), weight.shape(), bias.shape());
  if (shape.per_channel() == 1 && !options.reducer) {
    throw std::invalid_argument(
        "[nn] batch_norm: x is " + to_string(x.shape()) +
        ", but training needs more than one element per channel: use a larger batch, leave out an "
        "incomplete last one (drop_last) or, on several ranks, use convert_sync_batchnorm, which "
        "counts the elements of all of them");
  }
  auto call = std::make_shared<BatchNormCall>(tape.context(), x.value(), weight.value(), shape);
  call->take_statistics_of_batch(options);
  return record(tape, std::move(call), x, weight, bias);
}

Variable batch_norm_inference(Tape& tape, const Variable& x, const Variable& weight,
                              const Variable& bias, const Tensor& mean, const Tensor& variance,
                              double eps) {
  if (must_widen(weight, bias)) {
    return batch_norm_inference(tape, x, widened(tape, weight), widened(tape, bias), mean, variance,
                                eps);
  }
  check_eps("batch_norm", eps);
  const ChannelShape shape = batch_norm_shape(x.shape(), weight.shape(), bias.shape());
  check_statistics(x.shape(), mean.shape(), variance.shape());
  auto call = std::make_shared<BatchNormCall>(tape.context(), x.value(), weight.value(), shape);
  call->take_statistics(mean, variance, eps);
  return record(tape, std::move(call), x, weight, bias);
}

}  // namespace ddp::nn
