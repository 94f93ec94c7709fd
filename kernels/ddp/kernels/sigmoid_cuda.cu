// SPDX-License-Identifier: MIT
#include <cmath>

#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/sigmoid.h"

namespace ddp::cu {
namespace {

template <class T>
__global__ void sigmoid_kernel(const T* x, T* y, std::size_t count) {
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    y[i] = T{1} / (T{1} + exp(-x[i]));
  }
}

template <class T>
__global__ void sigmoid_backward_kernel(const T* y, const T* grad_y, T* grad_x, std::size_t count,
                                        WriteMode mode) {
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    launch::store(&grad_x[i], grad_y[i] * y[i] * (T{1} - y[i]), mode);
  }
}

}  // namespace

void sigmoid_forward(const Buffer& x, const Buffer& y, Stream stream) {
  detail::require("sigmoid_forward", "y", y, x);
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  detail::dispatch_float("sigmoid_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(sigmoid_kernel<T>, launch::blocks_for(x.count), stream,
                static_cast<const T*>(x.data), static_cast<T*>(y.data), x.count);
  });
}

void sigmoid_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x,
                      Stream stream) {
  detail::require("sigmoid_backward", "grad_y", grad_y, y);
  detail::require("sigmoid_backward", "grad_x", grad_x.buffer, y);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  detail::dispatch_float("sigmoid_backward", y.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(sigmoid_backward_kernel<T>, launch::blocks_for(y.count), stream,
                static_cast<const T*>(y.data), static_cast<const T*>(grad_y.data),
                static_cast<T*>(grad_x.buffer.data), y.count, grad_x.mode);
  });
}

}  // namespace ddp::cu
