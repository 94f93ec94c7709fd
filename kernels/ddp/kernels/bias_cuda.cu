// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/bias.h"
#include "ddp/kernels/detail/any_float.cuh"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/column_sums.cuh"
#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu {
namespace {

template <int kWidth, class T, class Index>
__global__ void bias_add_kernel(T* y, const T* bias, Index packs,
                                detail::Divisor<Index> packs_per_row) {
  launch::for_each_index(packs, [&](Index i) {
    const auto pack = launch::load<kWidth>(bias, std::size_t{i % packs_per_row} * kWidth);
    launch::store<kWidth>(y, std::size_t{i} * kWidth, pack, WriteMode::kAccumulate);
  });
}

template <unsigned kColumns, class T>
__global__ void __launch_bounds__(launch::kColumnThreads, 1)
    bias_grad_kernel(const T* grad_y, T* grad_bias, MatrixShape shape, WriteMode mode) {
  const auto term = [=](std::size_t r, std::size_t c) {
    return elementwise::convert<launch::Compute<T>>(grad_y[r * shape.columns + c]);
  };
  launch::store_column_sums<kColumns>(term, grad_bias, shape, mode);
}

}  // namespace

void bias_add(const Buffer& y, const Buffer& bias, MatrixShape shape, Stream stream) {
  detail::require("bias_add", "y", y, detail::like(y, shape.count()));
  detail::require("bias_add", "bias", bias, detail::like(y, shape.columns));
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  launch::dispatch_any_float("bias_add", y.dtype, [&](auto element) {
    using T = decltype(element);
    auto* elements = static_cast<T*>(y.data);
    const auto* row = static_cast<const T*>(bias.data);
    const bool is_aligned = launch::are_aligned(elements, row);
    launch::with_packs<T>(
        y.count, shape.columns, is_aligned, [&](auto width, auto packs, auto packs_per_row) {
          launch::run(bias_add_kernel<width, T, decltype(packs)>, launch::blocks_for(packs), stream,
                      elements, row, packs, packs_per_row);
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
  launch::dispatch_any_float("bias_grad", target.dtype, [&](auto element) {
    using T = decltype(element);
    launch::with_columns<T>(shape.columns, [&](auto columns, unsigned blocks) {
      launch_kernel(bias_grad_kernel<decltype(columns)::value, T>, blocks, launch::kColumnThreads,
                    stream, static_cast<const T*>(grad_y.data), static_cast<T*>(target.data), shape,
                    grad_bias.mode);
    });
  });
}

}  // namespace ddp::cu
