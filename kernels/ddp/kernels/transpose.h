// SPDX-License-Identifier: MIT
//
// Exchanges two dimensions of a tensor, such as positions and heads.
#pragma once

#include <cstddef>

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

// x is outer x first x middle x second x inner; y has `first` and `second` exchanged.
struct TransposeShape {
  std::size_t outer = 1;
  std::size_t first = 1;
  std::size_t middle = 1;
  std::size_t second = 1;
  std::size_t inner = 1;

  [[nodiscard]] constexpr std::size_t count() const {
    return element_count({outer, first, middle, second, inner});
  }
  // That of y.
  [[nodiscard]] constexpr TransposeShape transposed() const {
    return {outer, second, middle, first, inner};
  }
};

}  // namespace ddp

namespace ddp::cpu {

// y[o, s, m, f, i] = x[o, f, m, s, i].
void transpose(const Buffer& x, const GradientTarget& y, const TransposeShape& shape);

}  // namespace ddp::cpu

namespace ddp::cu {

// Also takes 16-bit types.
void transpose(const Buffer& x, const GradientTarget& y, const TransposeShape& shape,
               Stream stream);

}  // namespace ddp::cu
