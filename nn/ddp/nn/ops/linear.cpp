// SPDX-License-Identifier: MIT
#include <stdexcept>

#include "ddp/kernels/bias.h"
#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/ops/product.h"

namespace ddp::nn {
namespace {

void check_shapes(const Shape& x, const Shape& weight, const std::optional<Variable>& bias) {
  const bool has_matching_bias = !bias || bias->shape() == Shape{weight[0]};
  if (x.rank() > 0 && weight.rank() == 2 && x[x.rank() - 1] == weight[1] && has_matching_bias) {
    return;
  }
  throw std::invalid_argument(
      "[nn] linear: x is " + to_string(x) + ", weight " + to_string(weight) + ", bias " +
      (bias ? to_string(bias->shape()) : "none") + ", expected [..., in], [out, in], [out]");
}

}  // namespace

Variable linear(Tape& tape, const Variable& x, const Variable& weight,
                const std::optional<Variable>& bias) {
  check_shapes(x.shape(), weight.shape(), bias);
  if (must_narrow(tape, x, weight)) {
    return linear(tape, narrowed(tape, x), narrowed(tape, weight), narrowed(tape, bias));
  }
  require_one_dtype("linear", x, weight);
  if (bias && must_promote(x, *bias))
    return linear(tape, x, weight, cast(tape, *bias, x.value().dtype()));
  Context& context = tape.context();
  const std::size_t n = as_rows(x.shape()).rows, in = weight.shape()[1], out = weight.shape()[0];
  Tensor y = context.empty(x.shape().with(x.shape().rank() - 1, out), x.value().dtype());
  context.gemm(x.buffer(), weight.buffer(), y.buffer(), {.m = n, .n = out, .k = in},
               {.transpose_b = Transpose::kYes});
  if (bias) {
    context.run_any_float(cpu::bias_add, cu::bias_add, y.buffer(), bias->buffer(),
                          MatrixShape{n, out});
  }

  const auto bias_backward = [&context, n, out](const Buffer& grad_y,
                                                const GradientTarget& target) {
    context.run_any_float(cpu::bias_grad, cu::bias_grad, grad_y, target, MatrixShape{n, out});
  };
  const auto weight_backward = [&context, x = x.value(), n, in, out](const Buffer& grad_y,
                                                                     const GradientTarget& target) {
    context.gemm(grad_y, x.buffer(), target.buffer, {.m = out, .n = in, .k = n},
                 {.transpose_a = Transpose::kYes, .beta = beta_of(target.mode)});
  };
  const auto x_backward = [&context, weight = weight.value(), n, in, out](
                              const Buffer& grad_y, const GradientTarget& target) {
    context.gemm(grad_y, weight.buffer(), target.buffer, {.m = n, .n = in, .k = out},
                 {.beta = beta_of(target.mode)});
  };
  Edge to_weight{weight, weight_backward}, to_x{x, x_backward};
  if (!bias) return tape.record(std::move(y), std::move(to_weight), std::move(to_x));
  return tape.record(std::move(y), Edge{*bias, bias_backward}, std::move(to_weight),
                     std::move(to_x));
}

}  // namespace ddp::nn
