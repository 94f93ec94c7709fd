// SPDX-License-Identifier: MIT
#include "ddp/kernels/dropout.h"

#include "ddp/kernels/detail/dropout_draws.h"

namespace ddp::cpu {
namespace {

// One draw serves two elements.
template <class T, WriteMode mode>
void dropout_row(const T* x, T* y, std::size_t columns, const DropoutMask& mask,
                 std::uint64_t row) {
  const std::uint64_t threshold = detail::dropout_threshold(mask);
  const T scale = static_cast<T>(detail::dropout_scale(mask));
  const auto write = [&](std::size_t c, std::uint64_t draw) {
    const T kept = x[c] * scale;
    const T value = draw < threshold ? T{0} : kept;
    y[c] = mode == WriteMode::kAccumulate ? y[c] + value : value;
  };
  for (std::size_t c = 0; c + 1 < columns; c += 2) {
    const std::uint64_t draws = random_bits(mask.key, row, c / 2);
    write(c, draws & 0xffffffffU);
    write(c + 1, draws >> 32);
  }
  if (columns % 2 == 1) {
    write(columns - 1, random_bits(mask.key, row, columns / 2) & 0xffffffffU);
  }
}

}  // namespace

void dropout(const Buffer& x, const GradientTarget& y, const DropoutMask& mask, MatrixShape shape) {
  detail::check_dropout(x, y.buffer, mask, shape);
  detail::dispatch_float("dropout", x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto run = y.mode == WriteMode::kAccumulate ? dropout_row<T, WriteMode::kAccumulate>
                                                      : dropout_row<T, WriteMode::kOverwrite>;
    for (std::size_t r = 0; r < shape.rows; ++r) {
      run(static_cast<const T*>(x.data) + r * shape.columns,
          static_cast<T*>(y.buffer.data) + r * shape.columns, shape.columns, mask,
          detail::dropout_row(mask, r));
    }
  });
}

}  // namespace ddp::cpu
