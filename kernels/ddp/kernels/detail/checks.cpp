// SPDX-License-Identifier: MIT
#include "ddp/kernels/detail/checks.h"

#include <fmt/core.h>

#include <stdexcept>

namespace ddp::detail {

void require(const char* kernel, const char* operand, const Buffer& buffer,
             const Buffer& expected) {
  if (buffer.count == expected.count && buffer.dtype == expected.dtype &&
      buffer.device == expected.device) {
    return require_memory(kernel, operand, buffer);
  }
  throw std::invalid_argument(fmt::format("[kernels] {}: {} is {}, expected {}", kernel, operand,
                                          to_string(buffer), to_string(expected)));
}

void require_memory(const char* kernel, const char* operand, const Buffer& buffer) {
  if (buffer.data != nullptr || buffer.count == 0) return;
  throw std::invalid_argument(
      fmt::format("[kernels] {}: {} is {}, but its address is a null pointer", kernel, operand,
                  to_string(buffer)));
}

void refuse_dtype(const char* kernel, DType dtype, const char* supported) {
  throw std::invalid_argument(fmt::format("[kernels] {}: {} is not supported, only {}", kernel,
                                          to_string(dtype), supported));
}

}  // namespace ddp::detail
