// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/transpose.h"

namespace ddp::cu {
namespace {

template <class T>
__global__ void transpose_kernel(const T* x, T* y, std::size_t count, TransposeShape shape,
                                 WriteMode mode) {
  for (std::size_t at = launch::global_thread(); at < count; at += launch::grid_threads()) {
    const std::size_t i = at % shape.inner;
    const std::size_t f = at / shape.inner % shape.first;
    const std::size_t m = at / (shape.inner * shape.first) % shape.middle;
    const std::size_t os = at / (shape.inner * shape.first * shape.middle);
    const std::size_t o = os / shape.second, s = os % shape.second;
    const std::size_t source =
        (((o * shape.first + f) * shape.middle + m) * shape.second + s) * shape.inner + i;
    launch::store(&y[at], x[source], mode);
  }
}

}  // namespace

void transpose(const Buffer& x, const GradientTarget& y, const TransposeShape& shape,
               Stream stream) {
  detail::require("transpose", "x", x, detail::like(x, shape.count()));
  detail::require("transpose", "y", y.buffer, x);
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  detail::dispatch_float("transpose", x.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(transpose_kernel<T>, launch::blocks_for(x.count), stream,
                static_cast<const T*>(x.data), static_cast<T*>(y.buffer.data), x.count, shape,
                y.mode);
  });
}

}  // namespace ddp::cu
