// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/max_pool2d.h"

namespace ddp::detail {

inline void check_max_pool2d(const char* kernel, const Buffer& x, const Buffer& y,
                             const Buffer& indices, const Pool2dShape& shape) {
  check_x_and_y(kernel, x, y, shape);
  require(kernel, "indices", indices, like(x, shape.y_count(), DType::kInt32));
  if (shape.input.count() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw std::invalid_argument("[kernels] " + std::string(kernel) + ": a plane of " +
                                std::to_string(shape.input.count()) +
                                " elements is more than int32 can count");
  }
}

}  // namespace ddp::detail
