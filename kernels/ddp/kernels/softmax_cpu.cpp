// SPDX-License-Identifier: MIT
#include "ddp/kernels/softmax.h"

#include <algorithm>

#include "ddp/base/vectorised.h"
#include "ddp/kernels/detail/softmax_checks.h"
#include "ddp/kernels/detail/softmax_row.h"
#include "ddp/kernels/detail/wide_sums.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {
namespace {

template <class T>
void backward_row(const T* y, const T* grad_y, T* grad_x, std::size_t columns, WriteMode mode) {
  const auto product = [=](std::size_t c) { return grad_y[c] * y[c]; };
  const T sum = static_cast<T>(detail::wide_sum(columns, product));
  detail::write_each(grad_x, mode, columns,
                     [=](std::size_t c) { return y[c] * (grad_y[c] - sum); });
}

}  // namespace

void softmax_forward(const Buffer& x, const Buffer& y, MatrixShape shape, SoftmaxMask mask) {
  detail::check_softmax_forward(x, y, shape, mask);
  if (x.count == 0) return;
  detail::dispatch_float("softmax_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* in = static_cast<const T*>(x.data);
    T* out = static_cast<T*>(y.data);
    vectorised([=] {
      for (std::size_t r = 0; r < shape.rows; ++r) {
        const std::size_t offset = r * shape.columns;
        const std::size_t seen = detail::softmax_columns(shape, mask, r);
        detail::softmax_row(in + offset, out + offset, seen,
                            detail::row_maximum(in + offset, seen));
        std::fill(out + offset + seen, out + offset + shape.columns, T{0});
      }
    });
  });
}

void softmax_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x,
                      MatrixShape shape) {
  detail::check_softmax_backward(y, grad_y, grad_x.buffer, shape);
  detail::dispatch_float("softmax_backward", y.dtype, [&](auto element) {
    using T = decltype(element);
    const T* value = static_cast<const T*>(y.data);
    const T* incoming = static_cast<const T*>(grad_y.data);
    T* target = static_cast<T*>(grad_x.buffer.data);
    vectorised([=, mode = grad_x.mode] {
      for (std::size_t r = 0; r < shape.rows; ++r) {
        const std::size_t offset = r * shape.columns;
        backward_row(value + offset, incoming + offset, target + offset, shape.columns, mode);
      }
    });
  });
}

}  // namespace ddp::cpu
