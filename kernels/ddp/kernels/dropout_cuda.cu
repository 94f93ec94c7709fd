// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/any_float.cuh"
#include "ddp/kernels/detail/dropout_draws.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/dropout.h"

namespace ddp::cu {
namespace {

// Each draw of 64 bits is for two columns.
template <int kWidth, class T, class Index>
__global__ void dropout_kernel(const T* x, T* y, Index packs, detail::Divisor<Index> packs_per_row,
                               DropoutMask mask, launch::Compute<T> scale, WriteMode mode) {
  const std::uint64_t threshold = detail::dropout_threshold(mask);
  launch::for_each_index(packs, [&](Index i) {
    const Index row = i / packs_per_row;
    const std::size_t column = std::size_t{i - row * packs_per_row} * kWidth;
    auto pack = launch::load<kWidth>(x, std::size_t{i} * kWidth);
    std::uint64_t draws = 0;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      if (k % 2 == 0) {
        draws = random_bits(mask.key, detail::dropout_row(mask, row), (column + k) / 2);
      }
      const std::uint64_t draw = (column + k) % 2 == 0 ? draws & 0xffffffffU : draws >> 32;
      pack.lane[k] = draw < threshold ? 0 : pack.lane[k] * scale;
    }
    launch::store<kWidth>(y, std::size_t{i} * kWidth, pack, mode);
  });
}

}  // namespace

void dropout(const Buffer& x, const GradientTarget& y, const DropoutMask& mask, MatrixShape shape,
             Stream stream) {
  detail::check_dropout(x, y.buffer, mask, shape);
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  launch::dispatch_any_float("dropout", x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* in = static_cast<const T*>(x.data);
    auto* out = static_cast<T*>(y.buffer.data);
    const auto scale = static_cast<launch::Compute<T>>(detail::dropout_scale(mask));
    const bool is_aligned = launch::are_aligned(in, out);
    launch::with_packs<T>(
        x.count, shape.columns, is_aligned, [&](auto width, auto packs, auto packs_per_row) {
          launch::run(dropout_kernel<width, T, decltype(packs)>, launch::blocks_for(packs), stream,
                      in, out, packs, packs_per_row, mask, scale, y.mode);
        });
  });
}

}  // namespace ddp::cu
