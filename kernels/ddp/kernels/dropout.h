// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

// What is dropped of a part of a batch. It is a function of `key` and of the place in the whole
// batch, whose row first_row + r * row_stride is row r of the part.
struct DropoutMask {
  double probability = 0.5;  // of an element to be dropped, from 0 to 1
  std::uint64_t key = 0;
  std::uint64_t first_row = 0;
  std::uint64_t row_stride = 1;
};

}  // namespace ddp

namespace ddp::cpu {

// y = x / (1 - probability), or 0 for what is dropped. An element is kept if its draw, the lower
// (even columns) or upper half of random_bits(key, row of the batch, column / 2) of
// ddp/base/random.h, is at least probability * 2^32. Backward is the same with grad_y for x.
void dropout(const Buffer& x, const GradientTarget& y, const DropoutMask& mask, MatrixShape shape);

}  // namespace ddp::cpu

namespace ddp::cu {

void dropout(const Buffer& x, const GradientTarget& y, const DropoutMask& mask, MatrixShape shape,
             Stream stream);

}  // namespace ddp::cu
