// SPDX-License-Identifier: MIT
#include "ddp/kernels/conv2d.h"

#include <stdexcept>

#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

Conv2dShape shape_of(const Shape& x, const Shape& weight, const Shape& bias,
                     const Conv2dOptions& options) {
  if (x.rank() != 4 || weight.rank() != 4 || x[1] != weight[1] || bias != Shape{weight[0]}) {
    throw std::invalid_argument("[nn] conv2d: x is " + to_string(x) + ", weight " +
                                to_string(weight) + ", bias " + to_string(bias) +
                                ", expected [n, in, height, width], [out, in, height, width], "
                                "[out]");
  }
  return {.batch = x[0],
          .in_channels = x[1],
          .out_channels = weight[0],
          .input = {x[2], x[3]},
          .kernel = {weight[2], weight[3]},
          .stride = options.stride,
          .padding = options.padding};
}

}  // namespace

Variable conv2d(Tape& tape, const Variable& x, const Variable& weight, const Variable& bias,
                const Conv2dOptions& options) {
  if (must_narrow(tape, x, weight)) {
    return conv2d(tape, narrowed(tape, x), narrowed(tape, weight), narrowed(tape, bias), options);
  }
  const Conv2dShape shape = shape_of(x.shape(), weight.shape(), bias.shape(), options);
  const Size2d output = shape.output();
  Context& context = tape.context();
  Tensor y = context.empty({shape.batch, shape.out_channels, output.height, output.width},
                           x.value().dtype());
  context.run_conv2d(cpu::conv2d_forward, cu::conv2d_forward, x.buffer(), weight.buffer(),
                     bias.buffer(), y.buffer(), shape);

  const auto bias_backward = [&context, shape](const Buffer& grad_y, const GradientTarget& target) {
    context.run(cpu::conv2d_grad_bias, cu::conv2d_grad_bias, grad_y, target, shape);
  };
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
  return tape.record(std::move(y), Edge{bias, bias_backward}, Edge{weight, weight_backward},
                     Edge{x, x_backward});
}

}  // namespace ddp::nn
