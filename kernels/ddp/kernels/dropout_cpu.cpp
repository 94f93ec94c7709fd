// SPDX-License-Identifier: MIT
#include "ddp/kernels/dropout.h"

#include <algorithm>
#include <cstdint>

#include "ddp/base/vectorised.h"
#include "ddp/kernels/detail/dropout_draws.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {
namespace {

// Elements whose draws are made together, so that the choices need no branches, which could not be
// predicted.
constexpr std::size_t kBlock = 256;

// 1 for each of the `count` elements from `first` on that is dropped. One draw serves two elements.
void draw_block(const DropoutMask& mask, std::uint64_t row, std::size_t first, std::size_t count,
                std::uint32_t (&is_dropped)[kBlock]) {
  const std::uint64_t threshold = detail::dropout_threshold(mask);
  for (std::size_t i = 0; i < count; i += 2) {
    const std::uint64_t draws = random_bits(mask.key, row, (first + i) / 2);
    is_dropped[i] = (draws & 0xffffffffU) < threshold ? 1 : 0;
    is_dropped[i + 1] = (draws >> 32) < threshold ? 1 : 0;
  }
}

template <class T>
void dropout_row(const T* x, T* y, std::size_t columns, const DropoutMask& mask, std::uint64_t row,
                 WriteMode mode) {
  const T scale = static_cast<T>(detail::dropout_scale(mask));
  for (std::size_t first = 0; first < columns; first += kBlock) {
    const std::size_t count = std::min(kBlock, columns - first);
    std::uint32_t is_dropped[kBlock];
    draw_block(mask, row, first, count, is_dropped);
    detail::write_each(y + first, mode, count, [&](std::size_t i) {
      const T kept = x[first + i] * scale;
      return is_dropped[i] != 0 ? T{0} : kept;
    });
  }
}

}  // namespace

void dropout(const Buffer& x, const GradientTarget& y, const DropoutMask& mask, MatrixShape shape) {
  detail::check_dropout(x, y.buffer, mask, shape);
  detail::dispatch_float("dropout", x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* in = static_cast<const T*>(x.data);
    T* out = static_cast<T*>(y.buffer.data);
    vectorised([=, mode = y.mode] {
      for (std::size_t r = 0; r < shape.rows; ++r) {
        dropout_row(in + r * shape.columns, out + r * shape.columns, shape.columns, mask,
                    detail::dropout_row(mask, r), mode);
      }
    });
  });
}

}  // namespace ddp::cpu
