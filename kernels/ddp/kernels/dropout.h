// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

// Which elements of a part of a batch are dropped: a function of `key` and the element's place in
// the whole batch. Row r of the part is row first_row + r * row_stride of the batch.
struct DropoutMask {
  double probability = 0.5;  // of dropping an element, from 0 to 1
  std::uint64_t key = 0;
  std::uint64_t first_row = 0;
  std::uint64_t row_stride = 1;
};

}  // namespace ddp

namespace ddp::cpu {

// y = x / (1 - probability), or 0 for a dropped element. An element is kept if its draw is at least
// probability * 2^32; its draw is the lower half (even columns) or the upper half of
// random_bits(key, row of the batch, column / 2) in ddp/base/random.h. The backward pass is the
// same with grad_y in place of x.
void dropout(const Buffer& x, const GradientTarget& y, const DropoutMask& mask, MatrixShape shape);

}  // namespace ddp::cpu

namespace ddp::cu {

// Also takes 16-bit types, and computes them in float32.
void dropout(const Buffer& x, const GradientTarget& y, const DropoutMask& mask, MatrixShape shape,
             Stream stream);

}  // namespace ddp::cu
