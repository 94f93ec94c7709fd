// SPDX-License-Identifier: MIT
#include "ddp/kernels/bias.h"

#include <vector>

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/vectorised.h"
#include "ddp/kernels/detail/write_each.h"

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
    const T* const elements = static_cast<const T*>(grad_y.data);
    std::vector<double> of_columns(shape.columns);
    detail::vectorised([=, sums = of_columns.data(), count = grad_y.count] {
      for (std::size_t offset = 0; offset < count; offset += shape.columns) {
        detail::write_each(sums, WriteMode::kAccumulate, shape.columns, [=](std::size_t c) {
          return static_cast<double>(elements[offset + c]);
        });
      }
    });
    detail::write_each(static_cast<T*>(target.data), grad_bias.mode, shape.columns,
                       [&](std::size_t c) { return static_cast<T>(of_columns[c]); });
  });
}

}  // namespace ddp::cpu
