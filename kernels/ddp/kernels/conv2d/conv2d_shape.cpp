// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <stdexcept>

#include "ddp/kernels/conv2d.h"

namespace ddp {

Size2d Conv2dShape::output() const {
  if (groups == 0 || in_channels % groups != 0 || out_channels % groups != 0) {
    throw std::invalid_argument(
        fmt::format("[kernels] conv2d: {} groups do not divide {} input and {} output channels",
                    groups, in_channels, out_channels));
  }
  return windows("conv2d", padded_input(), kernel, stride);
}

Conv2dShape Conv2dShape::group() const {
  Conv2dShape group = *this;
  group.in_channels /= groups;
  group.out_channels /= groups;
  group.groups = 1;
  return group;
}

}  // namespace ddp
