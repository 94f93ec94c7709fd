// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/binary.h"
#include "ddp/kernels/detail/any_float.cuh"
#include "ddp/kernels/detail/binary_functions.h"

namespace ddp::cu {
namespace {

template <class T, class Function>
struct Combine {
  Function function;
  const T* a;
  const T* b;
  T* y;
  WriteMode mode;

  template <int N>
  __device__ void at(std::size_t i) const {
    auto pack = launch::load<N>(a, i);
    const auto other = launch::load<N>(b, i);
#pragma unroll
    for (int k = 0; k < N; ++k) pack.lane[k] = function(pack.lane[k], other.lane[k]);
    launch::store<N>(y, i, pack, mode);
  }
};

}  // namespace

void binary(const Buffer& a, const Buffer& b, const GradientTarget& y, const BinaryFunction& f,
            Stream stream) {
  detail::check_binary(a, b, y.buffer);
  const DeviceGuard guard(a.device);
  launch::dispatch_any_float("binary", a.dtype, [&](auto element) {
    using T = decltype(element);
    detail::with_binary<launch::Compute<T>>(f, [&](const auto& function) {
      const Combine<T, std::decay_t<decltype(function)>> combine{
          function, static_cast<const T*>(a.data), static_cast<const T*>(b.data),
          static_cast<T*>(y.buffer.data), y.mode};
      elementwise::launch<launch::kWide<T>>(
          combine, a.count, launch::are_aligned(combine.a, combine.b, combine.y), stream);
    });
  });
}

}  // namespace ddp::cu
