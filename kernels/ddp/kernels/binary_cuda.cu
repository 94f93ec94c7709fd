// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/binary.h"
#include "ddp/kernels/detail/binary_functions.h"
#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu {
namespace {

template <class T, class Function>
__global__ void binary_kernel(Function function, const T* a, const T* b, T* y, std::size_t count,
                              WriteMode mode) {
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    launch::store(&y[i], function(a[i], b[i]), mode);
  }
}

}  // namespace

void binary(const Buffer& a, const Buffer& b, const GradientTarget& y, const BinaryFunction& f,
            Stream stream) {
  detail::dispatch_binary(a, b, y.buffer, f, [&](const auto& function, auto element) {
    if (a.count == 0) return;
    const DeviceGuard guard(a.device);
    using T = decltype(element);
    using Function = std::decay_t<decltype(function)>;
    launch::run(binary_kernel<T, Function>, launch::blocks_for(a.count), stream, function,
                static_cast<const T*>(a.data), static_cast<const T*>(b.data),
                static_cast<T*>(y.buffer.data), a.count, y.mode);
  });
}

}  // namespace ddp::cu
