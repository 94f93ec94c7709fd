// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <stdexcept>
#include <string>

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/chunks.h"
#include "ddp/kernels/grad_norm.h"

namespace ddp::detail {

inline constexpr double kNormEpsilon = 1e-6;  // PyTorch's

inline void check_clip_grad_norm(std::span<const Buffer> grads, double max_norm,
                                 const ClippedGradients& result) {
  if (!(max_norm > 0)) {
    throw std::invalid_argument("[kernels] clip_grad_norm: max_norm is " +
                                std::to_string(max_norm) + ", expected a positive number");
  }
  const Buffer one = like(result.scale, 1, DType::kFloat64);
  require("clip_grad_norm", "norm", result.norm, one);
  require("clip_grad_norm", "scale", result.scale, one);
  require("clip_grad_norm", "partials", result.partials,
          like(one, grad_norm_partials(grads), DType::kFloat64));
  for (const Buffer& grad : grads) {
    require("clip_grad_norm", "a gradient", grad,
            {nullptr, grad.count, grads.front().dtype, one.device});
  }
}

}  // namespace ddp::detail
