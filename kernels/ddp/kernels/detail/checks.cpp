// SPDX-License-Identifier: MIT
#include "ddp/kernels/detail/checks.h"

#include <fmt/core.h>

#include <stdexcept>

namespace ddp::detail {

void require(const char* kernel, const char* operand, const Buffer& buffer,
             const Buffer& expected) {
  if (buffer.count == expected.count && buffer.dtype == expected.dtype &&
      buffer.device == expected.device) {
    return;
  }
  throw std::invalid_argument(fmt::format("[kernels] {}: {} is {}, expected {}", kernel, operand,
                                          to_string(buffer), to_string(expected)));
}

void refuse_dtype(const char* kernel, DType dtype, const char* supported) {
  throw std::invalid_argument(fmt::format("[kernels] {}: {} is not supported, only {}", kernel,
                                          to_string(dtype), supported));
}

}  // namespace ddp::detail
