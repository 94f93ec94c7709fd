// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/layer_norm.h"

namespace ddp::detail {

inline void check_layer_norm_forward(const Buffer& x, const Buffer& weight, const Buffer& bias,
                                     const LayerNormResult& result, MatrixShape shape) {
  constexpr const char* kKernel = "layer_norm_forward";
  require(kKernel, "x", x, like(x, shape.count()));
  require(kKernel, "weight", weight, like(x, shape.columns));
  require(kKernel, "bias", bias, like(x, shape.columns));
  require(kKernel, "y", result.y, x);
  require(kKernel, "mean", result.mean, like(x, shape.rows));
  require(kKernel, "rstd", result.rstd, like(x, shape.rows));
}

inline void check_layer_norm_operands(const char* kernel, const LayerNormOperands& operands,
                                      const Buffer& grad_y, MatrixShape shape) {
  const Buffer& x = operands.x;
  require(kernel, "x", x, like(x, shape.count()));
  require(kernel, "mean", operands.mean, like(x, shape.rows));
  require(kernel, "rstd", operands.rstd, like(x, shape.rows));
  require(kernel, "grad_y", grad_y, x);
}

inline void check_layer_norm_grad_input(const LayerNormOperands& operands, const Buffer& weight,
                                        const Buffer& grad_y, const Buffer& grad_x,
                                        MatrixShape shape) {
  check_layer_norm_operands("layer_norm_grad_input", operands, grad_y, shape);
  require("layer_norm_grad_input", "weight", weight, like(operands.x, shape.columns));
  require("layer_norm_grad_input", "grad_x", grad_x, operands.x);
}

inline void check_layer_norm_grad_weight(const LayerNormOperands& operands, const Buffer& grad_y,
                                         const Buffer& grad_weight, MatrixShape shape) {
  check_layer_norm_operands("layer_norm_grad_weight", operands, grad_y, shape);
  require("layer_norm_grad_weight", "grad_weight", grad_weight, like(operands.x, shape.columns));
}

}  // namespace ddp::detail
