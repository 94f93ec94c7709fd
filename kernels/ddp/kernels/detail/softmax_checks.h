// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>
#include <string>

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/host_device.h"
#include "ddp/kernels/softmax.h"

namespace ddp::detail {

inline void check_rows_forward(const char* kernel, const Buffer& x, const Buffer& y,
                               MatrixShape shape) {
  require(kernel, "x", x, like(x, shape.count()));
  require(kernel, "y", y, x);
}

inline void check_softmax_forward(const Buffer& x, const Buffer& y, MatrixShape shape,
                                  SoftmaxMask mask) {
  check_rows_forward("softmax_forward", x, y, shape);
  if (mask == SoftmaxMask::kNone || x.count == 0 || shape.rows % shape.columns == 0) return;
  throw std::invalid_argument("[kernels] softmax_forward: a causal mask for " +
                              std::to_string(shape.rows) + " x " + std::to_string(shape.columns) +
                              " elements, which are no square matrices");
}

inline void check_rows_backward(const char* kernel, const Buffer& y, const Buffer& grad_y,
                                const Buffer& grad_x, MatrixShape shape) {
  require(kernel, "y", y, like(y, shape.count()));
  require(kernel, "grad_y", grad_y, y);
  require(kernel, "grad_x", grad_x, y);
}

// How many columns of the row take part.
DDP_HOST_DEVICE inline std::size_t softmax_columns(MatrixShape shape, SoftmaxMask mask,
                                                   std::size_t row) {
  return mask == SoftmaxMask::kCausal ? row % shape.columns + 1 : shape.columns;
}

}  // namespace ddp::detail
