// SPDX-License-Identifier: MIT
//
// A transposed convolution is the gradient of a convolution's input. Its own gradients are that
// convolution and the gradient of that convolution's weight, with x and y exchanged.
#include <stdexcept>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/kernels/conv2d.h"
#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/ops/image.h"
#include "ddp/nn/ops/product.h"

namespace ddp::nn {
namespace {

void check(const Shape& x, const Shape& weight, const std::optional<Variable>& bias,
           const ConvTranspose2dOptions& options) {
  const bool are_images = x.rank() == 4 && weight.rank() == 4;
  const bool has_matching_bias =
      !bias || (are_images && bias->shape() == Shape{weight[1] * options.groups});
  const bool has_small_output_padding = options.output_padding.height < options.stride.height &&
                                        options.output_padding.width < options.stride.width;
  if (are_images && x[1] == weight[0] && has_matching_bias && has_small_output_padding) {
    return;
  }
  throw std::invalid_argument(
      "[nn] conv_transpose2d: x is " + to_string(x) + ", weight " + to_string(weight) + ", bias " +
      (bias ? to_string(bias->shape()) : "none") + ", groups " + std::to_string(options.groups) +
      ", output padding " + std::to_string(options.output_padding.height) + " x " +
      std::to_string(options.output_padding.width) +
      ", expected [n, in, height, width], [in, out / groups, height, width], [out], and an output "
      "padding smaller than the stride");
}

std::size_t output_size(std::size_t input, std::size_t kernel, std::size_t stride,
                        std::size_t padding, std::size_t output_padding) {
  const std::size_t padded = (input - 1) * stride + kernel + output_padding;
  if (input > 0 && padded > 2 * padding) return padded - 2 * padding;
  throw std::invalid_argument("[nn] conv_transpose2d: " + std::to_string(input) +
                              " pixels, a kernel of " + std::to_string(kernel) +
                              " and a padding of " + std::to_string(padding) + " leave no output");
}

// The convolution that computes x from y.
Conv2dShape reverse_of(const Shape& x, const Shape& weight, const ConvTranspose2dOptions& options) {
  const auto& [stride, padding, output_padding, groups] = options;
  return {
      .batch = x[0],
      .in_channels = weight[1] * groups,
      .out_channels = x[1],
      .input = {output_size(x[2], weight[2], stride.height, padding.height, output_padding.height),
                output_size(x[3], weight[3], stride.width, padding.width, output_padding.width)},
      .kernel = {weight[2], weight[3]},
      .stride = stride,
      .padding = padding,
      .groups = groups};
}

// A convolution cannot accumulate into its result, so accumulation goes through a temporary.
void convolve(Context& context, const Buffer& x, const Buffer& weight, const GradientTarget& target,
              const Conv2dShape& shape) {
  const Buffer no_bias{nullptr, 0, x.dtype, x.device};
  const auto write = [&](const Buffer& y) {
    context.run_conv2d(cpu::conv2d_forward, cu::conv2d_forward, x, weight, no_bias, y, shape);
  };
  if (target.mode == WriteMode::kOverwrite) return write(target.buffer);
  const Tensor summand = context.empty({target.buffer.count}, x.dtype);
  write(summand.buffer());
  reduce(summand.buffer(), target.buffer, ReduceOp::kSum, context.stream());
}

}  // namespace

Variable conv_transpose2d(Tape& tape, const Variable& x, const Variable& weight,
                          const std::optional<Variable>& bias,
                          const ConvTranspose2dOptions& options) {
  if (must_narrow(tape, x, weight)) {
    return conv_transpose2d(tape, narrowed(tape, x), narrowed(tape, weight), narrowed(tape, bias),
                            options);
  }
  check(x.shape(), weight.shape(), bias, options);
  require_one_dtype("conv_transpose2d", x, weight);
  if (bias && must_promote(x, *bias)) {
    return conv_transpose2d(tape, x, weight, cast(tape, *bias, x.value().dtype()), options);
  }
  const Conv2dShape reverse = reverse_of(x.shape(), weight.shape(), options);
  static_cast<void>(reverse.output());  // throws if the groups do not fit
  Context& context = tape.context();
  Tensor y =
      context.empty({reverse.batch, reverse.in_channels, reverse.input.height, reverse.input.width},
                    x.value().dtype());
  context.run_conv2d(cpu::conv2d_grad_input, cu::conv2d_grad_input, weight.buffer(), x.buffer(),
                     GradientTarget{y.buffer()}, reverse);
  if (bias) {
    context.run_any_float(cpu::channel_bias_add, cu::channel_bias_add, y.buffer(), bias->buffer(),
                          as_channels(y.shape()));
  }

  const auto weight_backward = [&context, x = x.value(), reverse](const Buffer& grad_y,
                                                                  const GradientTarget& target) {
    context.run_conv2d(cpu::conv2d_grad_weight, cu::conv2d_grad_weight, grad_y, x.buffer(), target,
                       reverse);
  };
  const auto x_backward = [&context, weight = weight.value(), reverse](
                              const Buffer& grad_y, const GradientTarget& target) {
    convolve(context, grad_y, weight.buffer(), target, reverse);
  };
  return record_convolution(tape, std::move(y), bias, {weight, weight_backward}, {x, x_backward});
}

}  // namespace ddp::nn
