// SPDX-License-Identifier: MIT
#include "ddp/kernels/shapes.h"

#include <fmt/format.h>

#include <stdexcept>

namespace ddp {

void Extent::refuse(std::ptrdiff_t size) {
  throw std::invalid_argument(
      fmt::format("[kernels] a shape or size of {}: it cannot be negative", size));
}

void refuse_element_count(std::span<const std::size_t> sizes) {
  throw std::invalid_argument(
      fmt::format("[kernels] a shape of {} has more elements than there can be bytes of memory",
                  fmt::join(sizes, " x ")));
}

void Size2d::refuse(std::size_t height, std::size_t width) {
  throw std::invalid_argument(
      fmt::format("[kernels] a size of {} x {}: at most {} is possible", height, width, kLargest));
}

Size2d windows(const char* kernel_name, const Size2d& input, const Size2d& kernel,
               const Size2d& stride) {
  if (stride.count() == 0 || kernel.count() == 0 || kernel.height > input.height ||
      kernel.width > input.width) {
    throw std::invalid_argument(fmt::format(
        "[kernels] {}: a kernel of {} x {} with stride {} x {} does not fit an input of {} x {}",
        kernel_name, kernel.height, kernel.width, stride.height, stride.width, input.height,
        input.width));
  }
  return {(input.height - kernel.height) / stride.height + 1,
          (input.width - kernel.width) / stride.width + 1};
}

}  // namespace ddp
