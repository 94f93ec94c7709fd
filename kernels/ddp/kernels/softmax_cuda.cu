// SPDX-License-Identifier: MIT
//
// Sums are added in a fixed order, so that equal inputs give equal bits.
#include <cmath>

#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/rows.cuh"
#include "ddp/kernels/detail/softmax_checks.h"
#include "ddp/kernels/softmax.h"

namespace ddp::cu {
namespace {

template <class Rows, class T = typename Rows::Element>
__global__ void softmax_kernel(const T* x, T* y, MatrixShape shape, SoftmaxMask mask) {
  using Team = typename Rows::Team;
  Rows::for_each(shape.rows, [&](std::size_t r) {
    const std::size_t seen = detail::softmax_columns(shape, mask, r);
    const auto row = Rows::read(x + r * shape.columns, seen);
    T maximum = -static_cast<T>(INFINITY);
    const auto find_maximum = [&](std::size_t c, T value) {
      if (c < seen) maximum = max(maximum, value);
    };
    Rows::visit(seen, find_maximum, row);
    maximum = Team::max(maximum);
    T sum = 0;
    const auto add = [&](std::size_t c, T value) { sum += c < seen ? exp(value - maximum) : T{0}; };
    Rows::visit(seen, add, row);
    const T inverse = T{1} / Team::sum(sum);
    const auto probability = [&](std::size_t c, T value) {
      return c < seen ? exp(value - maximum) * inverse : T{0};
    };
    Rows::store(y + r * shape.columns, shape.columns, WriteMode::kOverwrite, probability, row);
  });
}

template <class Rows, class T = typename Rows::Element>
__global__ void softmax_backward_kernel(const T* y, const T* grad_y, T* grad_x, MatrixShape shape,
                                        WriteMode mode) {
  const std::size_t columns = shape.columns;
  Rows::for_each(shape.rows, [&](std::size_t r) {
    const auto outputs = Rows::read(y + r * columns, columns);
    const auto gradients = Rows::read(grad_y + r * columns, columns);
    T sum = 0;
    const auto add = [&](std::size_t, T output, T gradient) { sum += gradient * output; };
    Rows::visit(columns, add, outputs, gradients);
    sum = Rows::Team::sum(sum);
    const auto grad_input = [&](std::size_t, T output, T gradient) {
      return output * (gradient - sum);
    };
    Rows::store(grad_x + r * columns, columns, mode, grad_input, outputs, gradients);
  });
}

template <class Rows, class T = typename Rows::Element>
__global__ void log_softmax_kernel(const T* x, T* y, MatrixShape shape) {
  using Team = typename Rows::Team;
  const std::size_t columns = shape.columns;
  Rows::for_each(shape.rows, [&](std::size_t r) {
    const auto row = Rows::read(x + r * columns, columns);
    T maximum = -static_cast<T>(INFINITY);
    const auto find_maximum = [&](std::size_t, T value) { maximum = max(maximum, value); };
    Rows::visit(columns, find_maximum, row);
    maximum = Team::max(maximum);
    T sum = 0;
    const auto add = [&](std::size_t, T value) { sum += exp(value - maximum); };
    Rows::visit(columns, add, row);
    const T log_of_sum = log(Team::sum(sum));
    const auto log_probability = [&](std::size_t, T value) { return value - maximum - log_of_sum; };
    Rows::store(y + r * columns, columns, WriteMode::kOverwrite, log_probability, row);
  });
}

template <class Rows, class T = typename Rows::Element>
__global__ void log_softmax_backward_kernel(const T* y, const T* grad_y, T* grad_x,
                                            MatrixShape shape, WriteMode mode) {
  const std::size_t columns = shape.columns;
  Rows::for_each(shape.rows, [&](std::size_t r) {
    const auto outputs = Rows::read(y + r * columns, columns);
    const auto gradients = Rows::read(grad_y + r * columns, columns);
    T sum = 0;
    const auto add = [&](std::size_t, T gradient) { sum += gradient; };
    Rows::visit(columns, add, gradients);
    sum = Rows::Team::sum(sum);
    const auto grad_input = [&](std::size_t, T output, T gradient) {
      return gradient - exp(output) * sum;
    };
    Rows::store(grad_x + r * columns, columns, mode, grad_input, outputs, gradients);
  });
}

}  // namespace

void softmax_forward(const Buffer& x, const Buffer& y, MatrixShape shape, SoftmaxMask mask,
                     Stream stream) {
  detail::check_softmax_forward(x, y, shape, mask);
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  detail::dispatch_float("softmax_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* in = static_cast<const T*>(x.data);
    auto* out = static_cast<T*>(y.data);
    const bool is_aligned = launch::are_aligned(in, out);
    launch::with_rows<T>(shape, is_aligned, [&](auto rows, unsigned blocks) {
      launch::run(softmax_kernel<decltype(rows)>, blocks, stream, in, out, shape, mask);
    });
  });
}

void softmax_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x,
                      MatrixShape shape, Stream stream) {
  detail::check_rows_backward("softmax_backward", y, grad_y, grad_x.buffer, shape);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  detail::dispatch_float("softmax_backward", y.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* output = static_cast<const T*>(y.data);
    const auto* gradient = static_cast<const T*>(grad_y.data);
    auto* target = static_cast<T*>(grad_x.buffer.data);
    const bool is_aligned = launch::are_aligned(output, gradient, target);
    launch::with_rows<T>(shape, is_aligned, [&](auto rows, unsigned blocks) {
      launch::run(softmax_backward_kernel<decltype(rows)>, blocks, stream, output, gradient, target,
                  shape, grad_x.mode);
    });
  });
}

void log_softmax_forward(const Buffer& x, const Buffer& y, MatrixShape shape, Stream stream) {
  detail::check_rows_forward("log_softmax_forward", x, y, shape);
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  detail::dispatch_float("log_softmax_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* in = static_cast<const T*>(x.data);
    auto* out = static_cast<T*>(y.data);
    launch::with_rows<T>(shape, launch::are_aligned(in, out), [&](auto rows, unsigned blocks) {
      launch::run(log_softmax_kernel<decltype(rows)>, blocks, stream, in, out, shape);
    });
  });
}

void log_softmax_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x,
                          MatrixShape shape, Stream stream) {
  detail::check_rows_backward("log_softmax_backward", y, grad_y, grad_x.buffer, shape);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  detail::dispatch_float("log_softmax_backward", y.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* output = static_cast<const T*>(y.data);
    const auto* gradient = static_cast<const T*>(grad_y.data);
    auto* target = static_cast<T*>(grad_x.buffer.data);
    const bool is_aligned = launch::are_aligned(output, gradient, target);
    launch::with_rows<T>(shape, is_aligned, [&](auto rows, unsigned blocks) {
      launch::run(log_softmax_backward_kernel<decltype(rows)>, blocks, stream, output, gradient,
                  target, shape, grad_x.mode);
    });
  });
}

}  // namespace ddp::cu
