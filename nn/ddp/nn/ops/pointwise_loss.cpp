// SPDX-License-Identifier: MIT
#include "ddp/kernels/pointwise_loss.h"

#include <stdexcept>
#include <string>

#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

void check_shapes(const char* name, const Shape& x, const Shape& target) {
  if (x == target) return;
  throw std::invalid_argument("[nn] " + std::string(name) + ": x is " + to_string(x) + ", target " +
                              to_string(target) + ", expected one shape");
}

Variable pointwise_loss(Tape& tape, const char* name, const Variable& x, const Tensor& target,
                        const PointwiseLoss& f) {
  if (must_widen(x)) return pointwise_loss(tape, name, widened(tape, x), target, f);
  check_shapes(name, x.shape(), target.shape());
  Context& context = tape.context();
  const MatrixShape shape = x.shape().rank() == 0 ? MatrixShape{1, 1} : as_matrix(x.shape());
  const Tensor row_losses = context.empty({shape.rows}, x.value().dtype());
  Tensor loss = context.empty({}, x.value().dtype());
  context.run(cpu::pointwise_loss_forward, cu::pointwise_loss_forward, x.buffer(), target.buffer(),
              PointwiseLossResult{row_losses.buffer(), loss.buffer()}, shape, f);
  const auto backward = [&context, x = x.value(), target, shape, f](const Buffer& grad_loss,
                                                                    const GradientTarget& grad_x) {
    context.run(cpu::pointwise_loss_backward, cu::pointwise_loss_backward, x.buffer(),
                target.buffer(), grad_loss, grad_x, shape, f);
  };
  return tape.record(std::move(loss), Edge{x, backward});
}

}  // namespace

Variable mse_loss(Tape& tape, const Variable& x, const Tensor& target) {
  return pointwise_loss(tape, "mse_loss", x, target, {PointwiseLossKind::kSquaredError});
}

Variable bce_with_logits(Tape& tape, const Variable& logits, const Tensor& target,
                         double pos_weight) {
  return pointwise_loss(tape, "bce_with_logits", logits, target,
                        {PointwiseLossKind::kBceWithLogits, pos_weight});
}

}  // namespace ddp::nn
