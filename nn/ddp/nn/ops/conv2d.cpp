// SPDX-License-Identifier: MIT
#include "ddp/kernels/conv2d.h"

#include <stdexcept>

#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/ops/image.h"
#include "ddp/nn/ops/product.h"

namespace ddp::nn {
namespace {

Conv2dShape conv2d_shape(const Shape& x, const Shape& weight, const std::optional<Variable>& bias,
                         const Conv2dOptions& options) {
  const bool has_matching_bias = !bias || bias->shape() == Shape{weight[0]};
  if (x.rank() != 4 || weight.rank() != 4 || x[1] != weight[1] * options.groups ||
      !has_matching_bias) {
    throw std::invalid_argument(
        "[nn] conv2d: x is " + to_string(x) + ", weight " + to_string(weight) + ", bias " +
        (bias ? to_string(bias->shape()) : "none") + ", groups " + std::to_string(options.groups) +
        ", expected [n, in, height, width], [out, in / groups, height, width], [out]");
  }
  return {.batch = x[0],
          .in_channels = x[1],
          .out_channels = weight[0],
          .input = {x[2], x[3]},
          .kernel = {weight[2], weight[3]},
          .stride = options.stride,
          .padding = options.padding,
          .groups = options.groups};
}

}  // namespace

Variable conv2d(Tape& tape, const Variable& x, const Variable& weight,
                const std::optional<Variable>& bias, const Conv2dOptions& options) {
  if (must_narrow(tape, x, weight)) {
    return conv2d(tape, narrowed(tape, x), narrowed(tape, weight), narrowed(tape, bias), options);
  }
  const Conv2dShape shape = conv2d_shape(x.shape(), weight.shape(), bias, options);
  require_one_dtype("conv2d", x, weight);
  if (bias && must_promote(x, *bias)) {
    return conv2d(tape, x, weight, cast(tape, *bias, x.value().dtype()), options);
  }
  const Size2d output = shape.output();
  Context& context = tape.context();
  Tensor y = context.empty({shape.batch, shape.out_channels, output.height, output.width},
                           x.value().dtype());
  const Buffer no_bias{nullptr, 0, x.value().dtype(), x.value().device()};
  context.run_conv2d(cpu::conv2d_forward, cu::conv2d_forward, x.buffer(), weight.buffer(),
                     bias ? bias->buffer() : no_bias, y.buffer(), shape);

  const auto weight_backward = [&context, x = x.value(), shape](const Buffer& grad_y,
                                                                const GradientTarget& target) {
    context.run_conv2d(cpu::conv2d_grad_weight, cu::conv2d_grad_weight, x.buffer(), grad_y, target,
                       shape);
  };
  const auto x_backward = [&context, weight = weight.value(), shape](const Buffer& grad_y,
                                                                     const GradientTarget& target) {
    context.run_conv2d(cpu::conv2d_grad_input, cu::conv2d_grad_input, weight.buffer(), grad_y,
                       target, shape);
  };
  return record_convolution(tape, std::move(y), bias, {weight, weight_backward}, {x, x_backward});
}

}  // namespace ddp::nn
