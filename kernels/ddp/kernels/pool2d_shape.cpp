// SPDX-License-Identifier: MIT
#include "ddp/kernels/pool2d_shape.h"

#include <fmt/core.h>

#include <stdexcept>

namespace ddp {

Size2d Pool2dShape::output() const {
  if (2 * padding.height > kernel.height || 2 * padding.width > kernel.width) {
    throw std::invalid_argument(fmt::format(
        "[kernels] pool2d: a padding of {} x {} is more than half of a kernel of {} x {}",
        padding.height, padding.width, kernel.height, kernel.width));
  }
  const Size2d padded{input.height + 2 * padding.height, input.width + 2 * padding.width};
  return ddp::windows("pool2d", padded, kernel, stride);
}

Size2d AdaptivePool2dShape::output() const {
  if (windows.count() > 0 && input.count() > 0) return windows;
  throw std::invalid_argument(
      fmt::format("[kernels] adaptive_pool2d: cannot have {} x {} windows over an input of {} x {}",
                  windows.height, windows.width, input.height, input.width));
}

}  // namespace ddp
