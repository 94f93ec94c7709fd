// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/divisor.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/transpose.h"

namespace ddp::cu {
namespace {

template <class Index>
struct Sizes {
  explicit Sizes(const TransposeShape& shape)
      : first(static_cast<Index>(shape.first)),
        middle(static_cast<Index>(shape.middle)),
        second(static_cast<Index>(shape.second)),
        inner(static_cast<Index>(shape.inner)) {}

  detail::Divisor<Index> first, middle, second, inner;
};

template <class T, class Index>
__global__ void transpose_kernel(const T* x, T* y, Index count, Sizes<Index> of, WriteMode mode) {
  launch::for_each_index(count, [&](Index at) {
    const Index osmf = at / of.inner, i = at - osmf * of.inner;
    const Index osm = osmf / of.first, f = osmf - osm * of.first;
    const Index os = osm / of.middle, m = osm - os * of.middle;
    const Index o = os / of.second, s = os - o * of.second;
    const Index source = (((o * of.first + f) * of.middle + m) * of.second + s) * of.inner + i;
    launch::store(&y[at], x[source], mode);
  });
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
    launch::with_grid_index(x.count, [&](auto index) {
      using Index = decltype(index);
      launch::run(transpose_kernel<T, Index>, launch::blocks_for(x.count), stream,
                  static_cast<const T*>(x.data), static_cast<T*>(y.buffer.data),
                  static_cast<Index>(x.count), Sizes<Index>(shape), y.mode);
    });
  });
}

}  // namespace ddp::cu
