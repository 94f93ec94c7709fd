// SPDX-License-Identifier: MIT
#include "ddp/kernels/softmax.h"

#include <algorithm>
#include <cmath>

#include "ddp/kernels/detail/softmax_checks.h"

namespace ddp::cpu {
namespace {

// Of the first `seen` columns of a row.
template <class T>
void softmax_row(const T* x, T* y, std::size_t columns, std::size_t seen) {
  const T maximum = *std::max_element(x, x + seen);
  T sum = 0;
  for (std::size_t c = 0; c < seen; ++c) {
    y[c] = std::exp(x[c] - maximum);
    sum += y[c];
  }
  const T inverse = T{1} / sum;
  for (std::size_t c = 0; c < seen; ++c) y[c] *= inverse;
  std::fill(y + seen, y + columns, T{0});
}

template <class T>
void backward_row(const T* y, const T* grad_y, T* grad_x, std::size_t columns, WriteMode mode) {
  T sum = 0;
  for (std::size_t c = 0; c < columns; ++c) sum += grad_y[c] * y[c];
  for (std::size_t c = 0; c < columns; ++c) {
    const T gradient = y[c] * (grad_y[c] - sum);
    grad_x[c] = mode == WriteMode::kAccumulate ? grad_x[c] + gradient : gradient;
  }
}

}  // namespace

void softmax_forward(const Buffer& x, const Buffer& y, MatrixShape shape, SoftmaxMask mask) {
  detail::check_softmax_forward(x, y, shape, mask);
  if (x.count == 0) return;
  detail::dispatch_float("softmax_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    for (std::size_t r = 0; r < shape.rows; ++r) {
      softmax_row(static_cast<const T*>(x.data) + r * shape.columns,
                  static_cast<T*>(y.data) + r * shape.columns, shape.columns,
                  detail::softmax_columns(shape, mask, r));
    }
  });
}

void softmax_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x,
                      MatrixShape shape) {
  detail::check_softmax_backward(y, grad_y, grad_x.buffer, shape);
  detail::dispatch_float("softmax_backward", y.dtype, [&](auto element) {
    using T = decltype(element);
    for (std::size_t r = 0; r < shape.rows; ++r) {
      const std::size_t offset = r * shape.columns;
      backward_row(static_cast<const T*>(y.data) + offset,
                   static_cast<const T*>(grad_y.data) + offset,
                   static_cast<T*>(grad_x.buffer.data) + offset, shape.columns, grad_x.mode);
    }
  });
}

}  // namespace ddp::cpu
