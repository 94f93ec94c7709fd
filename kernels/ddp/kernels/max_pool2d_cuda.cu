// SPDX-License-Identifier: MIT
#include <cstdint>

#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/max_pool2d_checks.h"
#include "ddp/kernels/detail/window_axis.h"
#include "ddp/kernels/max_pool2d.h"

namespace ddp::cu {
namespace {

using Axes = detail::WindowAxes<detail::FixedAxis>;

// One thread computes one window.
template <class T>
__global__ void max_pool2d_kernel(const T* x, T* y, std::int32_t* indices, std::size_t count,
                                  Axes axes) {
  const std::size_t width = axes.columns.input;
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    const detail::Range rows = axes.rows.window(i / axes.columns.output % axes.rows.output);
    const detail::Range columns = axes.columns.window(i % axes.columns.output);
    const std::size_t plane = i / axes.columns.output / axes.rows.output;
    const T* in = x + plane * axes.rows.input * width;
    std::size_t best = rows.begin * width + columns.begin;
    for (std::size_t h = rows.begin; h < rows.end; ++h) {
      for (std::size_t w = columns.begin; w < columns.end; ++w) {
        const std::size_t at = h * width + w;
        if (in[at] > in[best] || in[at] != in[at]) best = at;
      }
    }
    y[i] = in[best];
    indices[i] = static_cast<std::int32_t>(best);
  }
}

// One thread computes one element of x: it adds up the windows that chose the element. This needs
// no atomics, so equal inputs give equal bits even where windows overlap.
template <class T>
__global__ void max_pool2d_backward_kernel(const T* grad_y, const std::int32_t* indices, T* grad_x,
                                           std::size_t count, Axes axes, WriteMode mode) {
  const std::size_t in_plane = axes.rows.input * axes.columns.input;
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    const std::size_t at = i % in_plane;
    const detail::Range rows = axes.rows.windows_of(at / axes.columns.input);
    const detail::Range columns = axes.columns.windows_of(at % axes.columns.input);
    const std::size_t first_window_of_plane = i / in_plane * axes.rows.output * axes.columns.output;
    T sum = 0;
    for (std::size_t r = rows.begin; r < rows.end; ++r) {
      for (std::size_t c = columns.begin; c < columns.end; ++c) {
        const std::size_t window = first_window_of_plane + r * axes.columns.output + c;
        if (static_cast<std::size_t>(indices[window]) == at) sum += grad_y[window];
      }
    }
    launch::store(&grad_x[i], sum, mode);
  }
}

}  // namespace

void max_pool2d_forward(const Buffer& x, const Buffer& y, const Buffer& indices,
                        const Pool2dShape& shape, Stream stream) {
  detail::check_max_pool2d("max_pool2d_forward", x, y, indices, shape);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  detail::dispatch_float("max_pool2d_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(max_pool2d_kernel<T>, launch::blocks_for(y.count), stream,
                static_cast<const T*>(x.data), static_cast<T*>(y.data),
                static_cast<std::int32_t*>(indices.data), y.count, detail::axes_of(shape));
  });
}

void max_pool2d_backward(const Buffer& grad_y, const Buffer& indices, const GradientTarget& grad_x,
                         const Pool2dShape& shape, Stream stream) {
  const Buffer& target = grad_x.buffer;
  detail::check_max_pool2d("max_pool2d_backward", target, grad_y, indices, shape);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("max_pool2d_backward", target.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(max_pool2d_backward_kernel<T>, launch::blocks_for(target.count), stream,
                static_cast<const T*>(grad_y.data), static_cast<const std::int32_t*>(indices.data),
                static_cast<T*>(target.data), target.count, detail::axes_of(shape), grad_x.mode);
  });
}

}  // namespace ddp::cu
