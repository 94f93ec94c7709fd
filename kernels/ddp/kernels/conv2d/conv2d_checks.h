// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/detail/checks.h"

namespace ddp::detail {

inline void check_conv2d_forward(const Buffer& x, const Buffer& weight, const Buffer& bias,
                                 const Buffer& y, const Conv2dShape& shape) {
  require("conv2d_forward", "x", x, like(x, shape.x_count()));
  require("conv2d_forward", "weight", weight, like(x, shape.weight_count()));
  if (bias.count > 0) require("conv2d_forward", "bias", bias, like(x, shape.out_channels));
  require("conv2d_forward", "y", y, like(x, shape.y_count()));
}

inline void check_conv2d_grad_input(const Buffer& weight, const Buffer& grad_y,
                                    const Buffer& grad_x, const Conv2dShape& shape) {
  require("conv2d_grad_input", "weight", weight, like(weight, shape.weight_count()));
  require("conv2d_grad_input", "grad_y", grad_y, like(weight, shape.y_count()));
  require("conv2d_grad_input", "grad_x", grad_x, like(weight, shape.x_count()));
}

inline void check_conv2d_grad_weight(const Buffer& x, const Buffer& grad_y,
                                     const Buffer& grad_weight, const Conv2dShape& shape) {
  require("conv2d_grad_weight", "x", x, like(x, shape.x_count()));
  require("conv2d_grad_weight", "grad_y", grad_y, like(x, shape.y_count()));
  require("conv2d_grad_weight", "grad_weight", grad_weight, like(x, shape.weight_count()));
}

}  // namespace ddp::detail
