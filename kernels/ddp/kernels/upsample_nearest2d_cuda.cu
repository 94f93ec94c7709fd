// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/upsample_nearest2d_checks.h"
#include "ddp/kernels/upsample_nearest2d.h"

namespace ddp::cu {
namespace {

// One thread computes one pixel of y. The planes lie one after the other in memory, so i / width
// numbers the rows of all planes.
template <class T>
__global__ void upsample_kernel(const T* x, T* y, std::size_t count, Size2d scale,
                                std::size_t x_width) {
  const std::size_t width = x_width * scale.width;
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    y[i] = x[i / width / scale.height * x_width + i % width / scale.width];
  }
}

// One thread computes one pixel of x.
template <class T>
__global__ void upsample_backward_kernel(const T* grad_y, T* grad_x, std::size_t count,
                                         Size2d scale, std::size_t x_width, WriteMode mode) {
  const std::size_t width = x_width * scale.width;
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    const T* block = grad_y + i / x_width * scale.height * width + i % x_width * scale.width;
    T sum = 0;
    for (std::size_t r = 0; r < scale.height; ++r) {
      for (std::size_t c = 0; c < scale.width; ++c) sum += block[r * width + c];
    }
    launch::store(&grad_x[i], sum, mode);
  }
}

}  // namespace

void upsample_nearest2d_forward(const Buffer& x, const Buffer& y, const Upsample2dShape& shape,
                                Stream stream) {
  detail::check_upsample_nearest2d("upsample_nearest2d_forward", x, y, shape);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  detail::dispatch_float("upsample_nearest2d_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(upsample_kernel<T>, launch::blocks_for(y.count), stream,
                static_cast<const T*>(x.data), static_cast<T*>(y.data), y.count, shape.scale,
                shape.input.width);
  });
}

void upsample_nearest2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                                 const Upsample2dShape& shape, Stream stream) {
  const Buffer& target = grad_x.buffer;
  detail::check_upsample_nearest2d("upsample_nearest2d_backward", target, grad_y, shape);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("upsample_nearest2d_backward", target.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(upsample_backward_kernel<T>, launch::blocks_for(target.count), stream,
                static_cast<const T*>(grad_y.data), static_cast<T*>(target.data), target.count,
                shape.scale, shape.input.width, grad_x.mode);
  });
}

}  // namespace ddp::cu
