// SPDX-License-Identifier: MIT
//
// For kernels that take elements of every floating-point type, and compute those of 16 bits in
// float32.
#pragma once

#include <type_traits>

#include "ddp/buffer_ops/elementwise.cuh"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/shapes.h"

namespace ddp::cu::launch {

using elementwise::Compute;

// Like dispatch_float(), but also calls f(__half{}) and f(__nv_bfloat16{}).
template <class F>
void dispatch_any_float(const char* kernel, DType dtype, F&& f) {
  if (dtype == DType::kFloat16) return f(__half{});
  if (dtype == DType::kBFloat16) return f(__nv_bfloat16{});
  if (dtype == DType::kFloat32) return f(float{});
  if (dtype == DType::kFloat64) return f(double{});
  detail::refuse_dtype(kernel, dtype, "floating-point types");
}

// The widest packs of T that one access may read.
template <class T>
inline constexpr int kWide = elementwise::kAccessBytes / sizeof(T);

// True if kWide<T> elements at a time may be read from each of these addresses on.
template <class... T>
bool are_aligned(const T*... operands) {
  return (elementwise::is_aligned(operands, elementwise::kAccessBytes) && ...);
}

// Calls f(kWidth): with kWide<T> for packs that are as wide as possible, or 1 for elements.
template <class T, class F>
void with_width(bool is_wide, const F& f) {
  if (is_wide) {
    f(std::integral_constant<int, kWide<T>>{});
  } else {
    f(std::integral_constant<int, 1>{});
  }
}

// Calls f(kWidth, packs, packs_per_row) for `count` elements in rows of `columns`, of which no pack
// crosses an end; the latter two are of the Index that suits for_each_index().
template <class T, class F>
void with_packs(std::size_t count, std::size_t columns, bool is_aligned, const F& f) {
  with_width<T>(is_aligned && columns % kWide<T> == 0, [&](auto width) {
    const std::size_t packs = count / width;
    with_grid_index(packs, [&](auto index) {
      using Index = decltype(index);
      f(width, static_cast<Index>(packs), static_cast<Index>(columns / width));
    });
  });
}

template <int N, class T>
__device__ elementwise::Pack<Compute<T>, N> load(const T* elements, std::size_t i) {
  const auto stored = elementwise::pack_at<N>(elements, i);
  elementwise::Pack<Compute<T>, N> pack;
#pragma unroll
  for (int k = 0; k < N; ++k) pack.lane[k] = elementwise::convert<Compute<T>>(stored.lane[k]);
  return pack;
}

// Adds in the precision of Compute<T> in the mode that accumulates.
template <int N, class T>
__device__ void store(T* elements, std::size_t i, elementwise::Pack<Compute<T>, N> pack,
                      WriteMode mode) {
  if (mode == WriteMode::kAccumulate) {
    const auto before = load<N>(elements, i);
#pragma unroll
    for (int k = 0; k < N; ++k) pack.lane[k] = before.lane[k] + pack.lane[k];
  }
  elementwise::Pack<T, N> stored;
#pragma unroll
  for (int k = 0; k < N; ++k) stored.lane[k] = elementwise::convert<T>(pack.lane[k]);
  elementwise::pack_at<N>(elements, i) = stored;
}

}  // namespace ddp::cu::launch
