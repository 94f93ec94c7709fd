// SPDX-License-Identifier: MIT
//
// One warp handles one row, and sums it in a fixed order, so that equal inputs give equal bits.
#include <cmath>

#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/softmax_checks.h"
#include "ddp/kernels/softmax.h"

namespace ddp::cu {
namespace {

template <class T>
__global__ void softmax_kernel(const T* x, T* y, MatrixShape shape, SoftmaxMask mask) {
  for (std::size_t r = launch::first_row(); r < shape.rows; r += launch::row_step()) {
    const T* in = x + r * shape.columns;
    T* out = y + r * shape.columns;
    const std::size_t seen = detail::softmax_columns(shape, mask, r);
    T maximum = -static_cast<T>(INFINITY);
    for (std::size_t c = launch::lane(); c < seen; c += launch::kWarp) {
      maximum = max(maximum, in[c]);
    }
    maximum = launch::warp_max(maximum);
    T sum = 0;
    for (std::size_t c = launch::lane(); c < seen; c += launch::kWarp) {
      out[c] = exp(in[c] - maximum);
      sum += out[c];
    }
    const T inverse = T{1} / launch::warp_sum(sum);
    for (std::size_t c = launch::lane(); c < shape.columns; c += launch::kWarp) {
      out[c] = c < seen ? out[c] * inverse : T{0};
    }
  }
}

template <class T>
__global__ void softmax_backward_kernel(const T* y, const T* grad_y, T* grad_x, MatrixShape shape,
                                        WriteMode mode) {
  for (std::size_t r = launch::first_row(); r < shape.rows; r += launch::row_step()) {
    const std::size_t offset = r * shape.columns;
    T sum = 0;
    for (std::size_t c = launch::lane(); c < shape.columns; c += launch::kWarp) {
      sum += grad_y[offset + c] * y[offset + c];
    }
    sum = launch::warp_sum(sum);
    for (std::size_t c = launch::lane(); c < shape.columns; c += launch::kWarp) {
      launch::store(&grad_x[offset + c], y[offset + c] * (grad_y[offset + c] - sum), mode);
    }
  }
}

}  // namespace

void softmax_forward(const Buffer& x, const Buffer& y, MatrixShape shape, SoftmaxMask mask,
                     Stream stream) {
  detail::check_softmax_forward(x, y, shape, mask);
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  detail::dispatch_float("softmax_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(softmax_kernel<T>, launch::blocks_for(shape.rows, launch::kRowsPerBlock), stream,
                static_cast<const T*>(x.data), static_cast<T*>(y.data), shape, mask);
  });
}

void softmax_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x,
                      MatrixShape shape, Stream stream) {
  detail::check_softmax_backward(y, grad_y, grad_x.buffer, shape);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  detail::dispatch_float("softmax_backward", y.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(softmax_backward_kernel<T>, launch::blocks_for(shape.rows, launch::kRowsPerBlock),
                stream, static_cast<const T*>(y.data), static_cast<const T*>(grad_y.data),
                static_cast<T*>(grad_x.buffer.data), shape, grad_x.mode);
  });
}

}  // namespace ddp::cu
