// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/dropout_draws.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/dropout.h"

namespace ddp::cu {
namespace {

template <class T>
__global__ void dropout_kernel(const T* x, T* y, DropoutMask mask, T scale, MatrixShape shape,
                               WriteMode mode) {
  const std::size_t count = shape.rows * shape.columns;
  const std::uint64_t threshold = detail::dropout_threshold(mask);
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    const std::size_t column = i % shape.columns;
    const std::uint64_t row = detail::dropout_row(mask, i / shape.columns);
    const std::uint64_t draws = random_bits(mask.key, row, column / 2);
    const std::uint64_t draw = column % 2 == 0 ? draws & 0xffffffffU : draws >> 32;
    launch::store(&y[i], draw < threshold ? T{0} : x[i] * scale, mode);
  }
}

}  // namespace

void dropout(const Buffer& x, const GradientTarget& y, const DropoutMask& mask, MatrixShape shape,
             Stream stream) {
  detail::check_dropout(x, y.buffer, mask, shape);
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  detail::dispatch_float("dropout", x.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(dropout_kernel<T>, launch::blocks_for(x.count), stream,
                static_cast<const T*>(x.data), static_cast<T*>(y.buffer.data), mask,
                static_cast<T>(detail::dropout_scale(mask)), shape, y.mode);
  });
}

}  // namespace ddp::cu
