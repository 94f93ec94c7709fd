// SPDX-License-Identifier: MIT
#include <cstdint>

#include "ddp/cuda/check.h"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/max_pool2d_checks.h"
#include "ddp/kernels/max_pool2d.h"

namespace ddp::cu {
namespace {

// One thread a window.
template <class T>
__global__ void max_pool2d_kernel(const T* x, T* y, std::int32_t* indices, std::size_t count,
                                  MaxPool2dShape shape, Size2d output) {
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    const std::size_t row = i / output.width % output.height * shape.stride.height;
    const std::size_t column = i % output.width * shape.stride.width;
    const std::size_t plane = i / output.width / output.height;
    const T* in = x + plane * shape.input.height * shape.input.width;
    std::size_t best = row * shape.input.width + column;
    for (std::size_t h = 0; h < shape.kernel.height; ++h) {
      for (std::size_t w = 0; w < shape.kernel.width; ++w) {
        const std::size_t at = (row + h) * shape.input.width + column + w;
        if (in[at] > in[best] || in[at] != in[at]) best = at;
      }
    }
    y[i] = in[best];
    indices[i] = static_cast<std::int32_t>(best);
  }
}

// One thread an element of x, which adds up the windows that chose it: no atomics, so equal inputs
// give equal bits where windows overlap, too.
template <class T>
__global__ void max_pool2d_backward_kernel(const T* grad_y, const std::int32_t* indices, T* grad_x,
                                           std::size_t count, MaxPool2dShape shape, Size2d output,
                                           WriteMode mode) {
  const auto first_window = [](std::size_t position, std::size_t kernel, std::size_t stride) {
    return position < kernel ? 0 : (position - kernel) / stride + 1;
  };
  const std::size_t in_plane = shape.input.height * shape.input.width;
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    const std::size_t at = i % in_plane;
    const std::size_t row = at / shape.input.width, column = at % shape.input.width;
    const std::size_t first_window_of_plane = i / in_plane * output.height * output.width;
    T sum = 0;
    for (std::size_t r = first_window(row, shape.kernel.height, shape.stride.height);
         r < output.height && r * shape.stride.height <= row; ++r) {
      for (std::size_t c = first_window(column, shape.kernel.width, shape.stride.width);
           c < output.width && c * shape.stride.width <= column; ++c) {
        const std::size_t window = first_window_of_plane + r * output.width + c;
        if (static_cast<std::size_t>(indices[window]) == at) sum += grad_y[window];
      }
    }
    launch::store(&grad_x[i], sum, mode);
  }
}

}  // namespace

void max_pool2d_forward(const Buffer& x, const Buffer& y, const Buffer& indices,
                        const MaxPool2dShape& shape, Stream stream) {
  detail::check_max_pool2d("max_pool2d_forward", x, y, indices, shape);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  detail::dispatch_float("max_pool2d_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    max_pool2d_kernel<<<launch::blocks_for(y.count, launch::kThreads), launch::kThreads, 0,
                        launch::native(stream)>>>(
        static_cast<const T*>(x.data), static_cast<T*>(y.data),
        static_cast<std::int32_t*>(indices.data), y.count, shape, shape.output());
  });
  DDP_CUDA_CHECK(cudaGetLastError());
}

void max_pool2d_backward(const Buffer& grad_y, const Buffer& indices, const GradientTarget& grad_x,
                         const MaxPool2dShape& shape, Stream stream) {
  const Buffer& target = grad_x.buffer;
  detail::check_max_pool2d("max_pool2d_backward", target, grad_y, indices, shape);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("max_pool2d_backward", target.dtype, [&](auto element) {
    using T = decltype(element);
    max_pool2d_backward_kernel<<<launch::blocks_for(target.count, launch::kThreads),
                                 launch::kThreads, 0, launch::native(stream)>>>(
        static_cast<const T*>(grad_y.data), static_cast<const std::int32_t*>(indices.data),
        static_cast<T*>(target.data), target.count, shape, shape.output(), grad_x.mode);
  });
  DDP_CUDA_CHECK(cudaGetLastError());
}

}  // namespace ddp::cu
