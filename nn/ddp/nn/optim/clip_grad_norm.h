// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "ddp/nn/context.h"
#include "ddp/nn/parameter.h"

namespace ddp::nn {

// float64 scalars on the context's device.
struct ClippedNorm {
  Tensor norm;   // before clipping
  Tensor scale;  // for Optimizer::step, instead of the scale that clip_grad_norm was given

  [[nodiscard]] const double* grad_scale() const {
    return static_cast<const double*>(scale.buffer().data);
  }
};

// torch.nn.utils.clip_grad_norm_ without a pass that writes the gradients, and without a wait for
// the device: where the Euclidean norm of all gradients together, each times *grad_scale (null: 1),
// exceeds `max_norm`, the optimizer's scale makes up for it. With the scale of a
// DistributedDataParallel it is the norm of the mean gradient, and equal on all ranks. The formula
// stands in ddp/kernels/grad_norm.h. Parameters without a gradient count as zeros.
// `grad_scale` is memory of the context's device. Throws std::invalid_argument unless max_norm > 0.
[[nodiscard]] ClippedNorm clip_grad_norm(Context& context, std::span<Parameter* const> parameters,
                                         double max_norm, const double* grad_scale = nullptr);

}  // namespace ddp::nn
