// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include "ddp/base/round_up.h"

namespace ddp::detail {

// One dimension of a matrix, cut into parts of equal size; the last may be smaller.
struct Cut {
  std::size_t size = 0;
  std::size_t part = 1;

  [[nodiscard]] std::size_t count() const { return divide_up(size, part); }
  [[nodiscard]] std::size_t begin(std::size_t i) const { return i * part; }
  [[nodiscard]] std::size_t size_of(std::size_t i) const { return std::min(part, size - i * part); }
};

// A product's result as tiles, each of which one thread computes. They depend on nothing but the
// result's shape.
struct GemmTiles {
  Cut rows, columns;
};

// Smaller tiles take longer in sum (by up to 5 % at these sizes); with fewer, many threads have
// less to share. The counts are powers of two, which most numbers of threads share evenly.
inline GemmTiles gemm_tiles(std::size_t m, std::size_t n) {
  constexpr std::size_t kTiles = 16, kSmallest = 96, kMostRows = 512;
  const auto count = [](std::size_t size, std::size_t most) {
    return std::bit_floor(std::clamp<std::size_t>(size / kSmallest, 1, most));
  };
  const auto cut = [](std::size_t size, std::size_t parts) {
    constexpr std::size_t kVector = 16;
    return Cut{size, divide_up(size, parts * kVector) * kVector};
  };
  const std::size_t row_parts = divide_up(m, kMostRows);
  const std::size_t columns = count(n, std::max<std::size_t>(1, kTiles / row_parts));
  const std::size_t rows = std::max(row_parts, count(m, kTiles / columns));
  return {cut(m, rows), cut(n, columns)};
}

}  // namespace ddp::detail
