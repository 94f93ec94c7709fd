// SPDX-License-Identifier: MIT
#include "ddp/kernels/pointwise_loss.h"

#include <stdexcept>
#include <string>

#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

void check_shapes(const char* name, const Shape& x, const Shape& target) {
  if (x == target && x.rank() > 0) return;
  throw std::invalid_argument("[nn] " + std::string(name) + ": x is " + to_string(x) + ", target " +
                              to_string(target) + ", expected one shape [n, ...]");
}

// forward(result, shape) computes the loss, backward(grad_loss, target, shape) the gradient of x.
template <class Forward, class Backward>
Variable pointwise_loss(Tape& tape, const Variable& x, const Forward& forward,
                        const Backward& backward) {
  Context& context = tape.context();
  const MatrixShape shape = as_matrix(x.shape());
  const Tensor row_losses = context.empty({shape.rows}, x.value().dtype());
  Tensor loss = context.empty({}, x.value().dtype());
  forward(PointwiseLossResult{row_losses.buffer(), loss.buffer()}, shape);
  const auto run_backward = [backward, shape](const Buffer& grad_loss,
                                              const GradientTarget& target) {
    backward(grad_loss, target, shape);
  };
  return tape.record(std::move(loss), Edge{x, run_backward});
}

}  // namespace

Variable mse_loss(Tape& tape, const Variable& x, const Tensor& target) {
  if (must_widen(x)) return mse_loss(tape, widened(tape, x), target);
  check_shapes("mse_loss", x.shape(), target.shape());
  Context& context = tape.context();
  return pointwise_loss(
      tape, x,
      [&](const PointwiseLossResult& result, MatrixShape shape) {
        context.run(cpu::mse_forward, cu::mse_forward, x.buffer(), target.buffer(), result, shape);
      },
      [&context, x = x.value(), target](const Buffer& grad_loss, const GradientTarget& grad_x,
                                        MatrixShape shape) {
        context.run(cpu::mse_backward, cu::mse_backward, x.buffer(), target.buffer(), grad_loss,
                    grad_x, shape);
      });
}

Variable bce_with_logits(Tape& tape, const Variable& logits, const Tensor& target,
                         double pos_weight) {
  if (must_widen(logits)) return bce_with_logits(tape, widened(tape, logits), target, pos_weight);
  check_shapes("bce_with_logits", logits.shape(), target.shape());
  Context& context = tape.context();
  return pointwise_loss(
      tape, logits,
      [&](const PointwiseLossResult& result, MatrixShape shape) {
        context.run(cpu::bce_with_logits_forward, cu::bce_with_logits_forward, logits.buffer(),
                    target.buffer(), pos_weight, result, shape);
      },
      [&context, x = logits.value(), target, pos_weight](
          const Buffer& grad_loss, const GradientTarget& grad_x, MatrixShape shape) {
        context.run(cpu::bce_with_logits_backward, cu::bce_with_logits_backward, x.buffer(),
                    target.buffer(), pos_weight, grad_loss, grad_x, shape);
      });
}

}  // namespace ddp::nn
