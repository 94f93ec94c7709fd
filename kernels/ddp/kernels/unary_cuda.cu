// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/any_float.cuh"
#include "ddp/kernels/detail/unary_functions.h"
#include "ddp/kernels/unary.h"

namespace ddp::cu {
namespace {

template <class T, class Function>
struct Forward {
  Function function;
  const T* x;
  T* y;

  template <int N>
  __device__ void at(std::size_t i) const {
    auto pack = launch::load<N>(x, i);
#pragma unroll
    for (auto& lane : pack.lane) lane = function.value(lane);
    launch::store<N>(y, i, pack, WriteMode::kOverwrite);
  }
};

template <class T, class Function>
struct Backward {
  Function function;
  const T* kept;
  const T* grad_y;
  T* grad_x;
  WriteMode mode;

  template <int N>
  __device__ void at(std::size_t i) const {
    const auto of = launch::load<N>(kept, i);
    auto pack = launch::load<N>(grad_y, i);
#pragma unroll
    for (int k = 0; k < N; ++k) pack.lane[k] = function.gradient(of.lane[k], pack.lane[k]);
    launch::store<N>(grad_x, i, pack, mode);
  }
};

}  // namespace

void unary_forward(const Buffer& x, const Buffer& y, const UnaryFunction& f, Stream stream) {
  detail::require("unary_forward", "y", y, x);
  const DeviceGuard guard(x.device);
  launch::dispatch_any_float("unary_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    detail::with_unary<launch::Compute<T>>(f, [&](const auto& function) {
      const Forward<T, std::decay_t<decltype(function)>> forward{
          function, static_cast<const T*>(x.data), static_cast<T*>(y.data)};
      elementwise::launch<launch::kWide<T>>(forward, x.count,
                                            launch::are_aligned(forward.x, forward.y), stream);
    });
  });
}

void unary_backward(const Buffer& kept, const Buffer& grad_y, const GradientTarget& grad_x,
                    const UnaryFunction& f, Stream stream) {
  detail::require("unary_backward", "grad_y", grad_y, kept);
  detail::require("unary_backward", "grad_x", grad_x.buffer, kept);
  const DeviceGuard guard(kept.device);
  launch::dispatch_any_float("unary_backward", kept.dtype, [&](auto element) {
    using T = decltype(element);
    detail::with_unary<launch::Compute<T>>(f, [&](const auto& function) {
      const Backward<T, std::decay_t<decltype(function)>> backward{
          function, static_cast<const T*>(kept.data), static_cast<const T*>(grad_y.data),
          static_cast<T*>(grad_x.buffer.data), grad_x.mode};
      const bool is_aligned = launch::are_aligned(backward.kept, backward.grad_y, backward.grad_x);
      elementwise::launch<launch::kWide<T>>(backward, kept.count, is_aligned, stream);
    });
  });
}

}  // namespace ddp::cu
