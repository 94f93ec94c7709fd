// SPDX-License-Identifier: MIT
#include <type_traits>

#include "ddp/cuda/cuda.h"
#include "ddp/kernels/avg_pool2d.h"
#include "ddp/kernels/detail/avg_pool2d_checks.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/window_axis.h"

namespace ddp::cu {
namespace {

// One thread computes one window.
template <class T, class Axes>
__global__ void avg_pool2d_kernel(const T* x, T* y, typename Axes::Index count, Axes axes) {
  using Index = typename Axes::Index;
  const auto& rows = axes.rows;
  const auto& columns = axes.columns;
  launch::for_each_index(count, [&](Index i) {
    const Index row = i / columns.output;  // of all planes
    const Index plane = row / rows.output;
    const Index r = row - plane * rows.output, c = i - row * columns.output;
    const T* in = x + static_cast<std::size_t>(plane) * rows.input * columns.input;
    const auto over = rows.window(r);
    const auto across = columns.window(c);
    T sum = 0;
    for (Index h = over.begin; h < over.end; ++h) {
      for (Index w = across.begin; w < across.end; ++w) sum += in[h * columns.input + w];
    }
    y[i] = sum / static_cast<T>(rows.divisor(r) * columns.divisor(c));
  });
}

// One thread computes one pixel of x: it adds up the windows that cover the pixel.
template <class T, class Axes>
__global__ void avg_pool2d_backward_kernel(const T* grad_y, T* grad_x, typename Axes::Index count,
                                           Axes axes, WriteMode mode) {
  using Index = typename Axes::Index;
  const auto& rows = axes.rows;
  const auto& columns = axes.columns;
  launch::for_each_index(count, [&](Index i) {
    const Index row = i / columns.input;  // of all planes
    const Index plane = row / rows.input;
    const auto over = rows.windows_of(row - plane * rows.input);
    const auto across = columns.windows_of(i - row * columns.input);
    const T* windows = grad_y + static_cast<std::size_t>(plane) * rows.output * columns.output;
    T sum = 0;
    for (Index r = over.begin; r < over.end; ++r) {
      for (Index c = across.begin; c < across.end; ++c) {
        sum +=
            windows[r * columns.output + c] / static_cast<T>(rows.divisor(r) * columns.divisor(c));
      }
    }
    launch::store(&grad_x[i], sum, mode);
  });
}

template <class Shape>
void forward(const Buffer& x, const Buffer& y, const Shape& shape, Stream stream) {
  detail::check_avg_pool2d("avg_pool2d_forward", x, y, shape);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  detail::dispatch_float("avg_pool2d_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    launch::with_grid_index(detail::largest_index(shape), [&](auto index) {
      using Index = decltype(index);
      const auto axes = detail::axes_of<Index>(shape);
      launch::run(avg_pool2d_kernel<T, std::decay_t<decltype(axes)>>, launch::blocks_for(y.count),
                  stream, static_cast<const T*>(x.data), static_cast<T*>(y.data),
                  static_cast<Index>(y.count), axes);
    });
  });
}

template <class Shape>
void backward(const Buffer& grad_y, const GradientTarget& grad_x, const Shape& shape,
              Stream stream) {
  const Buffer& target = grad_x.buffer;
  detail::check_avg_pool2d("avg_pool2d_backward", target, grad_y, shape);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("avg_pool2d_backward", target.dtype, [&](auto element) {
    using T = decltype(element);
    launch::with_grid_index(detail::largest_index(shape), [&](auto index) {
      using Index = decltype(index);
      const auto axes = detail::axes_of<Index>(shape);
      launch::run(avg_pool2d_backward_kernel<T, std::decay_t<decltype(axes)>>,
                  launch::blocks_for(target.count), stream, static_cast<const T*>(grad_y.data),
                  static_cast<T*>(target.data), static_cast<Index>(target.count), axes,
                  grad_x.mode);
    });
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
