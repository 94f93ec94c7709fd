// SPDX-License-Identifier: MIT
#include "ddp/kernels/row_sums.h"

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {

void row_sums_forward(const Buffer& x, const Buffer& sums, MatrixShape shape) {
  detail::require("row_sums_forward", "x", x, detail::like(x, shape.count()));
  detail::require("row_sums_forward", "sums", sums, detail::like(x, shape.rows));
  detail::dispatch_float("row_sums_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* in = static_cast<const T*>(x.data);
    for (T& row_sum : sums.as<T>()) {
      double sum = 0;
      for (std::size_t c = 0; c < shape.columns; ++c) sum += static_cast<double>(*in++);
      row_sum = static_cast<T>(sum);
    }
  });
}

void row_sums_backward(const Buffer& grad_sums, const GradientTarget& grad_x, MatrixShape shape) {
  const Buffer& x = grad_x.buffer;
  detail::require("row_sums_backward", "grad_x", x, detail::like(x, shape.count()));
  detail::require("row_sums_backward", "grad_sums", grad_sums, detail::like(x, shape.rows));
  detail::dispatch_float("row_sums_backward", x.dtype, [&](auto element) {
    using T = decltype(element);
    T* row = static_cast<T*>(x.data);
    for (const T gradient : grad_sums.as<T>()) {
      detail::write_each(row, grad_x.mode, shape.columns, [=](std::size_t) { return gradient; });
      row += shape.columns;
    }
  });
}

}  // namespace ddp::cpu
