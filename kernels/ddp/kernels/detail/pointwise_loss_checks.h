// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/pointwise_loss.h"

namespace ddp::detail {

inline void check_pointwise_loss(const char* kernel, const Buffer& x, const Buffer& target,
                                 const PointwiseLossResult& result, MatrixShape shape) {
  require(kernel, "x", x, like(x, shape.count()));
  require(kernel, "target", target, x);
  require(kernel, "row_losses", result.row_losses, like(x, shape.rows));
  require(kernel, "loss", result.loss, like(x, 1));
}

inline void check_pointwise_backward(const char* kernel, const Buffer& x, const Buffer& target,
                                     const Buffer& grad_loss, const Buffer& grad_x,
                                     MatrixShape shape) {
  require(kernel, "x", x, like(x, shape.count()));
  require(kernel, "target", target, x);
  require(kernel, "grad_loss", grad_loss, like(x, 1));
  require(kernel, "grad_x", grad_x, x);
}

}  // namespace ddp::detail
