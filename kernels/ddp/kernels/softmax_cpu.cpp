// SPDX-License-Identifier: MIT
#include "ddp/kernels/softmax.h"

#include <algorithm>
#include <cmath>

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

// A row of at least one column.
template <class T>
void log_forward_row(const T* x, T* y, std::size_t columns) {
  const T maximum = detail::row_maximum(x, columns);
  const auto power = [=](std::size_t c) { return detail::exp(x[c] - maximum); };
  const T log_of_sum = std::log(static_cast<T>(detail::wide_sum(columns, power)));
  detail::write_each(y, WriteMode::kOverwrite, columns,
                     [=](std::size_t c) { return x[c] - maximum - log_of_sum; });
}

template <class T>
void log_backward_row(const T* y, const T* grad_y, T* grad_x, std::size_t columns, WriteMode mode) {
  const T sum = static_cast<T>(detail::wide_sum(columns, [=](std::size_t c) { return grad_y[c]; }));
  detail::write_each(grad_x, mode, columns,
                     [=](std::size_t c) { return grad_y[c] - detail::exp(y[c]) * sum; });
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
  detail::check_rows_backward("softmax_backward", y, grad_y, grad_x.buffer, shape);
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

void log_softmax_forward(const Buffer& x, const Buffer& y, MatrixShape shape) {
  detail::check_rows_forward("log_softmax_forward", x, y, shape);
  if (x.count == 0) return;
  detail::dispatch_float("log_softmax_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* in = static_cast<const T*>(x.data);
    T* out = static_cast<T*>(y.data);
    vectorised([=] {
      for (std::size_t i = 0; i < shape.count(); i += shape.columns) {
        log_forward_row(in + i, out + i, shape.columns);
      }
    });
  });
}

void log_softmax_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x,
                          MatrixShape shape) {
  detail::check_rows_backward("log_softmax_backward", y, grad_y, grad_x.buffer, shape);
  detail::dispatch_float("log_softmax_backward", y.dtype, [&](auto element) {
    using T = decltype(element);
    const T* value = static_cast<const T*>(y.data);
    const T* incoming = static_cast<const T*>(grad_y.data);
    T* target = static_cast<T*>(grad_x.buffer.data);
    vectorised([=, mode = grad_x.mode] {
      for (std::size_t i = 0; i < shape.count(); i += shape.columns) {
        log_backward_row(value + i, incoming + i, target + i, shape.columns, mode);
      }
    });
  });
}

}  // namespace ddp::cpu
