// SPDX-License-Identifier: MIT
//
// Losses that compare each element of x with an element of a target and average over all elements.
// x, target and gradient are samples x values.
#pragma once

#include <cstdint>

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

enum class PointwiseLossKind : std::uint8_t {
  kSquaredError,  // (x - target)^2
  // Binary cross-entropy of p = sigmoid(x): -(pos_weight * target * log(p) + (1 - target) *
  // log(1 - p)), computed as torch.nn.BCEWithLogitsLoss does, so that nothing overflows:
  //   (1 - target) * x + (1 + (pos_weight - 1) * target) * (log(1 + exp(-|x|)) + max(-x, 0))
  kBceWithLogits,
};

struct PointwiseLoss {
  PointwiseLossKind kind;
  double pos_weight = 1;  // of kBceWithLogits
};

struct PointwiseLossResult {
  Buffer row_losses;  // one per sample: the mean over its values
  Buffer loss;        // 1: the mean over all elements, 0 without any
};

}  // namespace ddp

namespace ddp::cpu {

void pointwise_loss_forward(const Buffer& x, const Buffer& target,
                            const PointwiseLossResult& result, MatrixShape shape,
                            const PointwiseLoss& f);
// grad_x = the loss's slope at x * grad_loss[0] / elements.
void pointwise_loss_backward(const Buffer& x, const Buffer& target, const Buffer& grad_loss,
                             const GradientTarget& grad_x, MatrixShape shape,
                             const PointwiseLoss& f);

}  // namespace ddp::cpu

namespace ddp::cu {

void pointwise_loss_forward(const Buffer& x, const Buffer& target,
                            const PointwiseLossResult& result, MatrixShape shape,
                            const PointwiseLoss& f, Stream stream);
void pointwise_loss_backward(const Buffer& x, const Buffer& target, const Buffer& grad_loss,
                             const GradientTarget& grad_x, MatrixShape shape,
                             const PointwiseLoss& f, Stream stream);

}  // namespace ddp::cu
