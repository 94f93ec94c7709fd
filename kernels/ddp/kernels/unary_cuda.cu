// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/unary_functions.h"
#include "ddp/kernels/unary.h"

namespace ddp::cu {
namespace {

template <class T, class Function>
__global__ void unary_kernel(Function function, const T* x, T* y, std::size_t count) {
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    y[i] = function.value(x[i]);
  }
}

template <class T, class Function>
__global__ void unary_backward_kernel(Function function, const T* kept, const T* grad_y, T* grad_x,
                                      std::size_t count, WriteMode mode) {
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    launch::store(&grad_x[i], function.gradient(kept[i], grad_y[i]), mode);
  }
}

}  // namespace

void unary_forward(const Buffer& x, const Buffer& y, const UnaryFunction& f, Stream stream) {
  detail::require("unary_forward", "y", y, x);
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  detail::dispatch_unary("unary_forward", x.dtype, f, [&](const auto& function, auto element) {
    using T = decltype(element);
    using Function = std::decay_t<decltype(function)>;
    launch::run(unary_kernel<T, Function>, launch::blocks_for(x.count), stream, function,
                static_cast<const T*>(x.data), static_cast<T*>(y.data), x.count);
  });
}

void unary_backward(const Buffer& kept, const Buffer& grad_y, const GradientTarget& grad_x,
                    const UnaryFunction& f, Stream stream) {
  detail::require("unary_backward", "grad_y", grad_y, kept);
  detail::require("unary_backward", "grad_x", grad_x.buffer, kept);
  if (kept.count == 0) return;
  const DeviceGuard guard(kept.device);
  detail::dispatch_unary("unary_backward", kept.dtype, f, [&](const auto& function, auto element) {
    using T = decltype(element);
    using Function = std::decay_t<decltype(function)>;
    launch::run(unary_backward_kernel<T, Function>, launch::blocks_for(kept.count), stream,
                function, static_cast<const T*>(kept.data), static_cast<const T*>(grad_y.data),
                static_cast<T*>(grad_x.buffer.data), kept.count, grad_x.mode);
  });
}

}  // namespace ddp::cu
