// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ddp/kernels/bias.h"
#include "ddp/kernels/detail/checks.h"

namespace ddp::cpu {
namespace {

template <class T>
void add_row(const T* source, T* target, std::size_t columns) {
  for (std::size_t c = 0; c < columns; ++c) target[c] += source[c];
}

}  // namespace

void bias_add(const Buffer& y, const Buffer& bias, MatrixShape shape) {
  detail::require("bias_add", "y", y, detail::like(y, shape.count()));
  detail::require("bias_add", "bias", bias, detail::like(y, shape.columns));
  detail::dispatch_float("bias_add", y.dtype, [&](auto element) {
    using T = decltype(element);
    for (std::size_t r = 0; r < shape.rows; ++r) {
      add_row(static_cast<const T*>(bias.data), static_cast<T*>(y.data) + r * shape.columns,
              shape.columns);
    }
  });
}

void bias_grad(const Buffer& grad_y, const GradientTarget& grad_bias, MatrixShape shape) {
  const Buffer& target = grad_bias.buffer;
  detail::require("bias_grad", "grad_y", grad_y, detail::like(grad_y, shape.count()));
  detail::require("bias_grad", "grad_bias", target, detail::like(grad_y, shape.columns));
  detail::dispatch_float("bias_grad", grad_y.dtype, [&](auto element) {
    using T = decltype(element);
    if (grad_bias.mode == WriteMode::kOverwrite) std::ranges::fill(target.as<T>(), T{0});
    for (std::size_t r = 0; r < shape.rows; ++r) {
      add_row(static_cast<const T*>(grad_y.data) + r * shape.columns, static_cast<T*>(target.data),
              shape.columns);
    }
  });
}

}  // namespace ddp::cpu
