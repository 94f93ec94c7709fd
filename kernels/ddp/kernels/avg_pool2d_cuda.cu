// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/avg_pool2d.h"
#include "ddp/kernels/detail/avg_pool2d_checks.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/window_axis.h"

namespace ddp::cu {
namespace {

// One thread computes one window.
template <class T, class Axes>
__global__ void avg_pool2d_kernel(const T* x, T* y, std::size_t count, Axes axes) {
  const auto& rows = axes.rows;
  const auto& columns = axes.columns;
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    const std::size_t r = i / columns.output % rows.output, c = i % columns.output;
    const T* plane = x + i / columns.output / rows.output * rows.input * columns.input;
    const detail::Range over = rows.window(r), across = columns.window(c);
    T sum = 0;
    for (std::size_t h = over.begin; h < over.end; ++h) {
      for (std::size_t w = across.begin; w < across.end; ++w) sum += plane[h * columns.input + w];
    }
    y[i] = sum / static_cast<T>(rows.divisor(r) * columns.divisor(c));
  }
}

// One thread computes one pixel of x: it adds up the windows that cover the pixel.
template <class T, class Axes>
__global__ void avg_pool2d_backward_kernel(const T* grad_y, T* grad_x, std::size_t count, Axes axes,
                                           WriteMode mode) {
  const auto& rows = axes.rows;
  const auto& columns = axes.columns;
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    const detail::Range over = rows.windows_of(i / columns.input % rows.input);
    const detail::Range across = columns.windows_of(i % columns.input);
    const T* plane = grad_y + i / columns.input / rows.input * rows.output * columns.output;
    T sum = 0;
    for (std::size_t r = over.begin; r < over.end; ++r) {
      for (std::size_t c = across.begin; c < across.end; ++c) {
        sum += plane[r * columns.output + c] / static_cast<T>(rows.divisor(r) * columns.divisor(c));
      }
    }
    launch::store(&grad_x[i], sum, mode);
  }
}

template <class Shape>
void forward(const Buffer& x, const Buffer& y, const Shape& shape, Stream stream) {
  detail::check_avg_pool2d("avg_pool2d_forward", x, y, shape);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  const auto axes = detail::axes_of(shape);
  using Axes = decltype(detail::axes_of(shape));
  detail::dispatch_float("avg_pool2d_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(avg_pool2d_kernel<T, Axes>, launch::blocks_for(y.count), stream,
                static_cast<const T*>(x.data), static_cast<T*>(y.data), y.count, axes);
  });
}

template <class Shape>
void backward(const Buffer& grad_y, const GradientTarget& grad_x, const Shape& shape,
              Stream stream) {
  const Buffer& target = grad_x.buffer;
  detail::check_avg_pool2d("avg_pool2d_backward", target, grad_y, shape);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  const auto axes = detail::axes_of(shape);
  using Axes = decltype(detail::axes_of(shape));
  detail::dispatch_float("avg_pool2d_backward", target.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(avg_pool2d_backward_kernel<T, Axes>, launch::blocks_for(target.count), stream,
                static_cast<const T*>(grad_y.data), static_cast<T*>(target.data), target.count,
                axes, grad_x.mode);
  });
}

}  // namespace

void avg_pool2d_forward(const Buffer& x, const Buffer& y, const Pool2dShape& shape, Stream stream) {
  forward(x, y, shape, stream);
}
void avg_pool2d_forward(const Buffer& x, const Buffer& y, const AdaptivePool2dShape& shape,
                        Stream stream) {
  forward(x, y, shape, stream);
}
void avg_pool2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                         const Pool2dShape& shape, Stream stream) {
  backward(grad_y, grad_x, shape, stream);
}
void avg_pool2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                         const AdaptivePool2dShape& shape, Stream stream) {
  backward(grad_y, grad_x, shape, stream);
}

}  // namespace ddp::cu
