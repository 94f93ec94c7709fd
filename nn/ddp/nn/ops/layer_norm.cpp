// SPDX-License-Identifier: MIT
#include "ddp/kernels/layer_norm.h"

#include <stdexcept>

#include "ddp/kernels/bias.h"
#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/ops/normalisation_checks.h"

namespace ddp::nn {
namespace {

// A row is what is normalised together.
MatrixShape layer_norm_shape(const Shape& x, const Shape& weight, const Shape& bias) {
  if (weight == bias && weight.rank() > 0 && is_tail(weight, x)) {
    return {x.product(0, x.rank() - weight.rank()), weight.count()};
  }
  throw std::invalid_argument("[nn] layer_norm: x is " + to_string(x) + ", weight " +
                              to_string(weight) + ", bias " + to_string(bias) +
                              ", expected the last dimensions of x twice");
}

}  // namespace

Variable layer_norm(Tape& tape, const Variable& x, const Variable& weight, const Variable& bias,
                    double eps) {
  if (must_widen(x, weight, bias)) {
    return layer_norm(tape, widened(tape, x), widened(tape, weight), widened(tape, bias), eps);
  }
  check_eps("layer_norm", eps);
  const MatrixShape shape = layer_norm_shape(x.shape(), weight.shape(), bias.shape());
  Context& context = tape.context();
  const DType dtype = x.value().dtype();
  const Tensor mean = context.empty({shape.rows}, dtype), rstd = context.empty({shape.rows}, dtype);
  Tensor y = context.empty(x.shape(), dtype);
  const LayerNormResult result{y.buffer(), mean.buffer(), rstd.buffer()};
  context.run(cpu::layer_norm_forward, cu::layer_norm_forward, x.buffer(), weight.buffer(),
              bias.buffer(), eps, result, shape);

  const auto bias_backward = [&context, shape](const Buffer& grad_y, const GradientTarget& target) {
    context.run(cpu::bias_grad, cu::bias_grad, grad_y, target, shape);
  };
  const auto weight_backward = [&context, x = x.value(), mean, rstd, shape](
                                   const Buffer& grad_y, const GradientTarget& target) {
    context.run(cpu::layer_norm_grad_weight, cu::layer_norm_grad_weight,
                LayerNormOperands{x.buffer(), mean.buffer(), rstd.buffer()}, grad_y, target, shape);
  };
  const auto x_backward = [&context, x = x.value(), mean, rstd, weight = weight.value(), shape](
                              const Buffer& grad_y, const GradientTarget& target) {
    context.run(cpu::layer_norm_grad_input, cu::layer_norm_grad_input,
                LayerNormOperands{x.buffer(), mean.buffer(), rstd.buffer()}, weight.buffer(),
                grad_y, target, shape);
  };
  return tape.record(std::move(y), Edge{bias, bias_backward}, Edge{weight, weight_backward},
                     Edge{x, x_backward});
}

}  // namespace ddp::nn
