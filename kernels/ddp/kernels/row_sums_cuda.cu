// SPDX-License-Identifier: MIT
//
// One block sums one row, in a fixed order, so that equal inputs give equal bits.
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/row_sums.h"

namespace ddp::cu {
namespace {

template <class T>
__global__ void row_sums_kernel(const T* x, T* sums, MatrixShape shape) {
  for (std::size_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    const T* row = x + r * shape.columns;
    double sum = 0;
    for (std::size_t c = threadIdx.x; c < shape.columns; c += launch::kThreads) {
      sum += static_cast<double>(row[c]);
    }
    sum = launch::block_sum(sum);
    if (threadIdx.x == 0) sums[r] = static_cast<T>(sum);
  }
}

template <class T, class Index>
__global__ void row_sums_backward_kernel(const T* grad_sums, T* grad_x, Index count,
                                         detail::Divisor<Index> columns, WriteMode mode) {
  launch::for_each_index(count,
                         [&](Index i) { launch::store(&grad_x[i], grad_sums[i / columns], mode); });
}

}  // namespace

void row_sums_forward(const Buffer& x, const Buffer& sums, MatrixShape shape, Stream stream) {
  detail::require("row_sums_forward", "x", x, detail::like(x, shape.count()));
  detail::require("row_sums_forward", "sums", sums, detail::like(x, shape.rows));
  if (shape.rows == 0) return;
  const DeviceGuard guard(x.device);
  detail::dispatch_float("row_sums_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(row_sums_kernel<T>, launch::blocks_for(shape.rows, 1), stream,
                static_cast<const T*>(x.data), static_cast<T*>(sums.data), shape);
  });
}

void row_sums_backward(const Buffer& grad_sums, const GradientTarget& grad_x, MatrixShape shape,
                       Stream stream) {
  const Buffer& x = grad_x.buffer;
  detail::require("row_sums_backward", "grad_x", x, detail::like(x, shape.count()));
  detail::require("row_sums_backward", "grad_sums", grad_sums, detail::like(x, shape.rows));
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  detail::dispatch_float("row_sums_backward", x.dtype, [&](auto element) {
    using T = decltype(element);
    launch::with_grid_index(x.count, [&](auto index) {
      using Index = decltype(index);
      launch::run(row_sums_backward_kernel<T, Index>, launch::blocks_for(x.count), stream,
                  static_cast<const T*>(grad_sums.data), static_cast<T*>(x.data),
                  static_cast<Index>(x.count), static_cast<Index>(shape.columns), grad_x.mode);
    });
  });
}

}  // namespace ddp::cu
