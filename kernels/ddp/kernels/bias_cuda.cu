// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/bias.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/column_sums.cuh"
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

template <class T>
__global__ void __launch_bounds__(launch::kColumnThreads)
    bias_grad_kernel(const T* grad_y, T* grad_bias, MatrixShape shape, WriteMode mode) {
  const auto term = [&](std::size_t r, std::size_t c) { return grad_y[r * shape.columns + c]; };
  launch::store_column_sums(term, grad_bias, shape, mode);
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
    launch::run_columns(bias_grad_kernel<T>, shape.columns, stream,
                        static_cast<const T*>(grad_y.data), static_cast<T*>(target.data), shape,
                        grad_bias.mode);
  });
}

}  // namespace ddp::cu
