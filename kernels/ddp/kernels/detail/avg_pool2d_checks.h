// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/avg_pool2d.h"
#include "ddp/kernels/detail/checks.h"

namespace ddp::detail {

// For either kind of shape.
template <class Shape>
void check_avg_pool2d(const char* kernel, const Buffer& x, const Buffer& y, const Shape& shape) {
  require(kernel, "x", x, like(x, shape.x_count()));
  require(kernel, "y", y, like(x, shape.y_count()));
}

}  // namespace ddp::detail
