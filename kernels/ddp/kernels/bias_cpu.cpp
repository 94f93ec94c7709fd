// SPDX-License-Identifier: MIT
#include "ddp/kernels/bias.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ddp/base/vectorised.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {
namespace {

// A row may be shorter than a vector, so the loops below take a tile of rows at a time, of up to
// this many elements or one row.
constexpr std::size_t kTileElements = 64;

std::size_t tile_size(std::size_t columns) {
  return columns == 0 ? 0 : std::max(columns, kTileElements / columns * columns);
}

}  // namespace

void bias_add(const Buffer& y, const Buffer& bias, MatrixShape shape) {
  detail::require("bias_add", "y", y, detail::like(y, shape.count()));
  detail::require("bias_add", "bias", bias, detail::like(y, shape.columns));
  detail::dispatch_float("bias_add", y.dtype, [&](auto element) {
    using T = decltype(element);
    std::vector<T> tile(tile_size(shape.columns));
    for (std::size_t i = 0; i < tile.size(); ++i) tile[i] = bias.as<const T>()[i % shape.columns];
    vectorised([elements = static_cast<T*>(y.data), count = y.count, row = tile.data(),
                size = tile.size()] {
      for (std::size_t begin = 0; begin < count; begin += size) {
        detail::write_each(elements + begin, WriteMode::kAccumulate, std::min(size, count - begin),
                           [row](std::size_t i) { return row[i]; });
      }
    });
  });
}

void bias_grad(const Buffer& grad_y, const GradientTarget& grad_bias, MatrixShape shape) {
  const Buffer& target = grad_bias.buffer;
  detail::require("bias_grad", "grad_y", grad_y, detail::like(grad_y, shape.count()));
  detail::require("bias_grad", "grad_bias", target, detail::like(grad_y, shape.columns));
  detail::dispatch_float("bias_grad", grad_y.dtype, [&](auto element) {
    using T = decltype(element);
    std::vector<double> of_tile(tile_size(shape.columns));
    vectorised([elements = static_cast<const T*>(grad_y.data), count = grad_y.count,
                sums = of_tile.data(), size = of_tile.size()] {
      for (std::size_t begin = 0; begin < count; begin += size) {
        detail::write_each(sums, WriteMode::kAccumulate, std::min(size, count - begin),
                           [=](std::size_t i) { return static_cast<double>(elements[begin + i]); });
      }
    });
    for (std::size_t i = shape.columns; i < of_tile.size(); ++i) {
      of_tile[i % shape.columns] += of_tile[i];
    }
    detail::write_each(static_cast<T*>(target.data), grad_bias.mode, shape.columns,
                       [&](std::size_t c) { return static_cast<T>(of_tile[c]); });
  });
}

}  // namespace ddp::cpu
