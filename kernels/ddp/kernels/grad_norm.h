// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"

namespace ddp {

// float64 results of clip_grad_norm, one element each, and its scratch memory.
struct ClippedGradients {
  Buffer norm;      // before clipping
  Buffer scale;     // what an optimizer multiplies the gradients by
  Buffer partials;  // grad_norm_partials(grads) elements, of undefined content
};

[[nodiscard]] std::size_t grad_norm_partials(std::span<const Buffer> grads);

}  // namespace ddp

namespace ddp::cpu {

// The Euclidean norm of all gradients together, each times *grad_scale (null: 1), and the factor
// that torch.nn.utils.clip_grad_norm_ would multiply them by, which is not done here:
//   norm = |*grad_scale| * sqrt(sum of grad^2)
//   scale = *grad_scale * min(1, max_norm / (norm + 1e-6))
// Squares are added up in float64 in an order that depends on the sizes alone, so equal gradients
// give equal bits. A norm that is infinite or no number makes scale 0 or NaN. Throws
// std::invalid_argument if the gradients' dtypes differ, or max_norm is not positive.
void clip_grad_norm(std::span<const Buffer> grads, double max_norm, const double* grad_scale,
                    const ClippedGradients& result);

}  // namespace ddp::cpu

namespace ddp::cu {

// `grad_scale` is device memory.
void clip_grad_norm(std::span<const Buffer> grads, double max_norm, const double* grad_scale,
                    const ClippedGradients& result, Stream stream);

}  // namespace ddp::cu
