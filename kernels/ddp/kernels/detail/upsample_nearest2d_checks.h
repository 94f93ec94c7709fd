// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/upsample_nearest2d.h"

namespace ddp::detail {

inline void check_upsample_nearest2d(const char* kernel, const Buffer& x, const Buffer& y,
                                     const Upsample2dShape& shape) {
  require(kernel, "x", x, like(x, shape.x_count()));
  require(kernel, "y", y, like(x, shape.y_count()));
}

}  // namespace ddp::detail
