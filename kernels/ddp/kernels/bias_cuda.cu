// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/bias.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu {
namespace {

template <class T>
__global__ void bias_add_kernel(T* y, const T* bias, MatrixShape shape) {
  const std::size_t count = shape.rows * shape.columns;
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    y[i] += bias[i % shape.columns];
  }
}

// A block sums 32 columns: warp w takes rows w, w + 8, ..., then warp 0 adds the 8 partial sums.
// The order is fixed, so equal inputs give equal bits.
template <class T>
__global__ void bias_grad_kernel(const T* grad_y, T* grad_bias, MatrixShape shape, WriteMode mode) {
  __shared__ T partial[launch::kRowsPerBlock][launch::kWarp];
  const unsigned warp = threadIdx.x / launch::kWarp;
  const unsigned lane = threadIdx.x % launch::kWarp;
  for (std::size_t first = static_cast<std::size_t>(blockIdx.x) * launch::kWarp;
       first < shape.columns; first += static_cast<std::size_t>(gridDim.x) * launch::kWarp) {
    const std::size_t column = first + lane;
    T sum = 0;
    if (column < shape.columns) {
      for (std::size_t row = warp; row < shape.rows; row += launch::kRowsPerBlock) {
        sum += grad_y[row * shape.columns + column];
      }
    }
    partial[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && column < shape.columns) {
      for (unsigned w = 1; w < launch::kRowsPerBlock; ++w) sum += partial[w][lane];
      launch::store(&grad_bias[column], sum, mode);
    }
    __syncthreads();
  }
}

}  // namespace

void bias_add(const Buffer& y, const Buffer& bias, MatrixShape shape, Stream stream) {
  detail::require("bias_add", "y", y, detail::like(y, shape.count()));
  detail::require("bias_add", "bias", bias, detail::like(y, shape.columns));
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  detail::dispatch_float("bias_add", y.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(bias_add_kernel<T>, launch::blocks_for(y.count), stream, static_cast<T*>(y.data),
                static_cast<const T*>(bias.data), shape);
  });
}

void bias_grad(const Buffer& grad_y, const GradientTarget& grad_bias, MatrixShape shape,
               Stream stream) {
  const Buffer& target = grad_bias.buffer;
  detail::require("bias_grad", "grad_y", grad_y, detail::like(grad_y, shape.count()));
  detail::require("bias_grad", "grad_bias", target, detail::like(grad_y, shape.columns));
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("bias_grad", target.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(bias_grad_kernel<T>, launch::blocks_for(shape.columns, launch::kWarp), stream,
                static_cast<const T*>(grad_y.data), static_cast<T*>(target.data), shape,
                grad_bias.mode);
  });
}

}  // namespace ddp::cu
