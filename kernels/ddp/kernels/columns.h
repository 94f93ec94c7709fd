// SPDX-License-Identifier: MIT
//
// Copies columns of a matrix to and from a matrix of their own. Tensors are concatenated and split
// this way, with one sample in each row.
#pragma once

#include <cstddef>

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

// Columns [first, first + count) of a matrix; std::invalid_argument if it does not have them.
struct ColumnRange {
  MatrixShape whole;
  std::size_t first = 0;
  std::size_t count = 0;
};

}  // namespace ddp

namespace ddp::cpu {

// whole[r, first + c] = part[r, c]; the other columns are left as they are.
void put_columns(const Buffer& part, const GradientTarget& whole, const ColumnRange& range);
// part[r, c] = whole[r, first + c].
void take_columns(const Buffer& whole, const GradientTarget& part, const ColumnRange& range);

}  // namespace ddp::cpu

namespace ddp::cu {

void put_columns(const Buffer& part, const GradientTarget& whole, const ColumnRange& range,
                 Stream stream);
void take_columns(const Buffer& whole, const GradientTarget& part, const ColumnRange& range,
                  Stream stream);

}  // namespace ddp::cu
