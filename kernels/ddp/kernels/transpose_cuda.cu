// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/any_float.cuh"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/divisor.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/transpose.h"

namespace ddp::cu {
namespace {

// The innermost size is in packs.
template <class Index>
struct Sizes {
  Sizes(const TransposeShape& shape, std::size_t pack_width)
      : first(static_cast<Index>(shape.first)),
        middle(static_cast<Index>(shape.middle)),
        second(static_cast<Index>(shape.second)),
        inner(static_cast<Index>(shape.inner / pack_width)) {}

  detail::Divisor<Index> first, middle, second, inner;
};

template <int kWidth, class T, class Index>
__global__ void transpose_kernel(const T* x, T* y, Index packs, Sizes<Index> of, WriteMode mode) {
  launch::for_each_index(packs, [&](Index at) {
    const Index osmf = at / of.inner, i = at - osmf * of.inner;
    const Index osm = osmf / of.first, f = osmf - osm * of.first;
    const Index os = osm / of.middle, m = osm - os * of.middle;
    const Index o = os / of.second, s = os - o * of.second;
    const Index source = (((o * of.first + f) * of.middle + m) * of.second + s) * of.inner + i;
    launch::store<kWidth>(y, std::size_t{at} * kWidth,
                          launch::load<kWidth>(x, std::size_t{source} * kWidth), mode);
  });
}

}  // namespace

void transpose(const Buffer& x, const GradientTarget& y, const TransposeShape& shape,
               Stream stream) {
  detail::require("transpose", "x", x, detail::like(x, shape.count()));
  detail::require("transpose", "y", y.buffer, x);
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  launch::dispatch_any_float("transpose", x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* source = static_cast<const T*>(x.data);
    auto* target = static_cast<T*>(y.buffer.data);
    const bool is_aligned = launch::are_aligned(source, target);
    launch::with_packs<T>(
        x.count, shape.inner, is_aligned, [&](auto width, auto packs, auto /*packs_per_row*/) {
          using Index = decltype(packs);
          launch::run(transpose_kernel<width, T, Index>, launch::blocks_for(packs), stream, source,
                      target, packs, Sizes<Index>(shape, width), y.mode);
        });
  });
}

}  // namespace ddp::cu
