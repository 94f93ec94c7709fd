// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "ddp/nn/context.h"
#include "ddp/nn/parameter.h"

namespace ddp::nn {

// float64 scalars on the context's device.
struct ClippedNorm {
  Tensor norm;   // before clipping
  Tensor scale;  // pass it to Optimizer::step in place of the scale given to clip_grad_norm

  [[nodiscard]] const double* grad_scale() const {
    return static_cast<const double*>(scale.buffer().data);
  }
};

// Has the effect of torch.nn.utils.clip_grad_norm_, but neither writes the gradients nor waits for
// the device. It computes the Euclidean norm of all gradients together, each multiplied by
// *grad_scale (1 if null). If the norm exceeds `max_norm`, the returned scale is the smaller by the
// quotient, so the optimizer's step uses clipped gradients; ddp/kernels/grad_norm.h gives the
// formula. With the scale of a DistributedDataParallel, the norm is that of the mean gradient and
// equal on all ranks. Parameters without a gradient count as zeros. `grad_scale` is memory of the
// context's device. Throws std::invalid_argument unless max_norm > 0, and if a parameter is a null
// pointer; std::logic_error if grad_scale is null and a DistributedModule's gradients need their
// scale: call the module's own clip_grad_norm().
[[nodiscard]] ClippedNorm clip_grad_norm(Context& context, std::span<Parameter* const> parameters,
                                         double max_norm, const double* grad_scale = nullptr);

}  // namespace ddp::nn
