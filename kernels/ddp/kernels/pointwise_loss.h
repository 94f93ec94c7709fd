// SPDX-License-Identifier: MIT
//
// Losses that compare each element of x with an element of a target and average over all elements.
// x, target and gradient are samples x values.
#pragma once

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

struct PointwiseLossResult {
  Buffer row_losses;  // one per sample: the mean over its values
  Buffer loss;        // 1: the mean over all elements, 0 without any
};

}  // namespace ddp

namespace ddp::cpu {

// loss = (x - target)^2.
void mse_forward(const Buffer& x, const Buffer& target, const PointwiseLossResult& result,
                 MatrixShape shape);
// grad_x = 2 * (x - target) * grad_loss[0] / elements.
void mse_backward(const Buffer& x, const Buffer& target, const Buffer& grad_loss,
                  const GradientTarget& grad_x, MatrixShape shape);

// Binary cross-entropy of p = sigmoid(x): loss = -(pos_weight * target * log(p) + (1 - target) *
// log(1 - p)), computed as torch.nn.BCEWithLogitsLoss does, so that nothing overflows:
//   (1 - target) * x + (1 + (pos_weight - 1) * target) * (log(1 + exp(-|x|)) + max(-x, 0))
void bce_with_logits_forward(const Buffer& x, const Buffer& target, double pos_weight,
                             const PointwiseLossResult& result, MatrixShape shape);
// grad_x = (1 - target - (1 + (pos_weight - 1) * target) * sigmoid(-x)) * grad_loss[0] / elements.
void bce_with_logits_backward(const Buffer& x, const Buffer& target, double pos_weight,
                              const Buffer& grad_loss, const GradientTarget& grad_x,
                              MatrixShape shape);

}  // namespace ddp::cpu

namespace ddp::cu {

void mse_forward(const Buffer& x, const Buffer& target, const PointwiseLossResult& result,
                 MatrixShape shape, Stream stream);
void mse_backward(const Buffer& x, const Buffer& target, const Buffer& grad_loss,
                  const GradientTarget& grad_x, MatrixShape shape, Stream stream);
void bce_with_logits_forward(const Buffer& x, const Buffer& target, double pos_weight,
                             const PointwiseLossResult& result, MatrixShape shape, Stream stream);
void bce_with_logits_backward(const Buffer& x, const Buffer& target, double pos_weight,
                              const Buffer& grad_loss, const GradientTarget& grad_x,
                              MatrixShape shape, Stream stream);

}  // namespace ddp::cu
