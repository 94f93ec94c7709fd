// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/bias.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/column_sums.cuh"
#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu {
namespace {

template <class T, class Index>
__global__ void bias_add_kernel(T* y, const T* bias, Index count, detail::Divisor<Index> columns) {
  launch::for_each_index(count, [&](Index i) { y[i] += bias[i % columns]; });
}

template <unsigned kColumns, class T>
__global__ void __launch_bounds__(launch::kColumnThreads, 1)
    bias_grad_kernel(const T* grad_y, T* grad_bias, MatrixShape shape, WriteMode mode) {
  const auto term = [=](std::size_t r, std::size_t c) { return grad_y[r * shape.columns + c]; };
  launch::store_column_sums<kColumns>(term, grad_bias, shape, mode);
}

}  // namespace

void bias_add(const Buffer& y, const Buffer& bias, MatrixShape shape, Stream stream) {
  detail::require("bias_add", "y", y, detail::like(y, shape.count()));
  detail::require("bias_add", "bias", bias, detail::like(y, shape.columns));
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  detail::dispatch_float("bias_add", y.dtype, [&](auto element) {
    using T = decltype(element);
    launch::with_grid_index(y.count, [&](auto index) {
      using Index = decltype(index);
      launch::run(bias_add_kernel<T, Index>, launch::blocks_for(y.count), stream,
                  static_cast<T*>(y.data), static_cast<const T*>(bias.data),
                  static_cast<Index>(y.count), static_cast<Index>(shape.columns));
    });
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
    launch::with_columns(shape.columns, [&](auto columns, unsigned blocks) {
      launch_kernel(bias_grad_kernel<decltype(columns)::value, T>, blocks, launch::kColumnThreads,
                    stream, static_cast<const T*>(grad_y.data), static_cast<T*>(target.data), shape,
                    grad_bias.mode);
    });
  });
}

}  // namespace ddp::cu
