// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/add.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu {
namespace {

template <class T>
__global__ void add_kernel(const T* a, const T* b, T* y, std::size_t count) {
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    y[i] = a[i] + b[i];
  }
}

}  // namespace

void add(const Buffer& a, const Buffer& b, const Buffer& y, Stream stream) {
  detail::require("add", "b", b, a);
  detail::require("add", "y", y, a);
  if (a.count == 0) return;
  const DeviceGuard guard(a.device);
  detail::dispatch_float("add", a.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(add_kernel<T>, launch::blocks_for(a.count), stream, static_cast<const T*>(a.data),
                static_cast<const T*>(b.data), static_cast<T*>(y.data), a.count);
  });
}

}  // namespace ddp::cu
