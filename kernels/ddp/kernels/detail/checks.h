// SPDX-License-Identifier: MIT
//
// Argument checks that the CPU and CUDA versions of a kernel share.
#pragma once

#include <cstddef>

#include "ddp/base/buffer.h"

namespace ddp::detail {

// Throws std::invalid_argument unless `buffer` has the count, dtype and device of `expected`
// (whose address is ignored): "[kernels] relu_forward: y is float32[3] on cpu, expected float32[4]
// on cpu". Calls require_memory(), too.
void require(const char* kernel, const char* operand, const Buffer& buffer, const Buffer& expected);

// For an operand that the others are compared with: throws std::invalid_argument if `buffer` has
// elements, but no memory.
void require_memory(const char* kernel, const char* operand, const Buffer& buffer);

// `like` with another count, or another count and dtype; the expectation for require().
[[nodiscard]] inline Buffer like(const Buffer& model, std::size_t count) {
  return {nullptr, count, model.dtype, model.device};
}
[[nodiscard]] inline Buffer like(const Buffer& model, std::size_t count, DType dtype) {
  return {nullptr, count, dtype, model.device};
}

// For a shape that has the counts of both operands.
template <class Shape>
void check_x_and_y(const char* kernel, const Buffer& x, const Buffer& y, const Shape& shape) {
  require(kernel, "x", x, like(x, shape.x_count()));
  require(kernel, "y", y, like(x, shape.y_count()));
}

// Throws std::invalid_argument: "[kernels] gemm: int32 is not supported, only float32 and float64".
[[noreturn]] void refuse_dtype(const char* kernel, DType dtype,
                               const char* supported = "float32 and float64");

// Calls f(float{}) or f(double{}); std::invalid_argument for any other dtype.
template <class F>
decltype(auto) dispatch_float(const char* kernel, DType dtype, F&& f) {
  if (dtype == DType::kFloat32) return f(float{});
  if (dtype == DType::kFloat64) return f(double{});
  refuse_dtype(kernel, dtype);
}

}  // namespace ddp::detail
