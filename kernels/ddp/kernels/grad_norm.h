// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"

namespace ddp {

// The float64 results of clip_grad_norm, one element each, and its scratch memory.
struct ClippedGradients {
  Buffer norm;      // before clipping
  Buffer scale;     // the factor that an optimizer must apply to the gradients
  Buffer partials;  // grad_norm_partials(grads) elements; content undefined
};

[[nodiscard]] std::size_t grad_norm_partials(std::span<const Buffer> grads);

}  // namespace ddp

namespace ddp::cpu {

// The Euclidean norm of all gradients together, each times *grad_scale (null: 1), and the factor by
// which torch.nn.utils.clip_grad_norm_ would multiply them. The gradients themselves are not
// changed.
//   norm = |*grad_scale| * sqrt(sum of grad^2)
//   scale = *grad_scale * min(1, max_norm / (norm + 1e-6))
// Squares are summed in float64 in an order that depends only on the sizes, so equal gradients give
// equal bits. An infinite or NaN norm makes scale 0 or NaN. Throws std::invalid_argument if the
// gradients' dtypes differ or max_norm is not positive.
void clip_grad_norm(std::span<const Buffer> grads, double max_norm, const double* grad_scale,
                    const ClippedGradients& result);

}  // namespace ddp::cpu

namespace ddp::cu {

// `grad_scale` is device memory.
void clip_grad_norm(std::span<const Buffer> grads, double max_norm, const double* grad_scale,
                    const ClippedGradients& result, Stream stream);

}  // namespace ddp::cu
