// SPDX-License-Identifier: MIT
#include "ddp/kernels/transpose.h"

#include <algorithm>

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {
namespace {

constexpr std::size_t kTile = 16;

// A square of at most kTile runs of x by kTile runs of y: the lines of memory that it reads stay in
// the cache until all of them are used.
template <class T>
void transpose_tile(const T* x, std::size_t x_step, T* y, std::size_t y_step, std::size_t firsts,
                    std::size_t seconds, std::size_t inner, WriteMode mode) {
  for (std::size_t s = 0; s < seconds; ++s) {
    if (inner == 1) {
      detail::write_each(y + s * y_step, mode, firsts,
                         [=](std::size_t f) { return x[f * x_step + s]; });
      continue;
    }
    for (std::size_t f = 0; f < firsts; ++f) {
      const T* run = x + f * x_step + s * inner;
      detail::write_each(y + s * y_step + f * inner, mode, inner,
                         [=](std::size_t i) { return run[i]; });
    }
  }
}

template <class T>
void run(const T* x, T* y, const TransposeShape& shape, WriteMode mode) {
  const std::size_t x_middle = shape.second * shape.inner, x_first = shape.middle * x_middle;
  const std::size_t y_middle = shape.first * shape.inner, y_second = shape.middle * y_middle;
  const std::size_t matrix = shape.first * x_first;
  for (std::size_t o = 0; o < shape.outer; ++o, x += matrix, y += matrix) {
    for (std::size_t s = 0; s < shape.second; s += kTile) {
      const std::size_t seconds = std::min(kTile, shape.second - s);
      for (std::size_t m = 0; m < shape.middle; ++m) {
        for (std::size_t f = 0; f < shape.first; f += kTile) {
          transpose_tile(x + f * x_first + m * x_middle + s * shape.inner, x_first,
                         y + s * y_second + m * y_middle + f * shape.inner, y_second,
                         std::min(kTile, shape.first - f), seconds, shape.inner, mode);
        }
      }
    }
  }
}

}  // namespace

void transpose(const Buffer& x, const GradientTarget& y, const TransposeShape& shape) {
  detail::require("transpose", "x", x, detail::like(x, shape.count()));
  detail::require("transpose", "y", y.buffer, x);
  detail::dispatch_float("transpose", x.dtype, [&](auto element) {
    using T = decltype(element);
    run(static_cast<const T*>(x.data), static_cast<T*>(y.buffer.data), shape, y.mode);
  });
}

}  // namespace ddp::cpu
