// SPDX-License-Identifier: MIT
//
// Looks up rows of a table: a token's vector, for example. Indices are int64 in [0, rows of the
// table); y has one row per index.
#pragma once

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp::cpu {

// y[p] = table[indices[p]]. An index outside its range is std::invalid_argument here, and a row of
// NaN on CUDA, which cannot throw from a kernel.
void embedding_forward(const Buffer& table, const Buffer& indices, const Buffer& y,
                       MatrixShape shape_of_table);
// grad_table[i] = the sum of grad_y[p] over the p with indices[p] = i, in their order; zero for a
// row without any. An index outside its range adds nothing on CUDA.
void embedding_backward(const Buffer& grad_y, const Buffer& indices,
                        const GradientTarget& grad_table, MatrixShape shape_of_table);

}  // namespace ddp::cpu

namespace ddp::cu {

void embedding_forward(const Buffer& table, const Buffer& indices, const Buffer& y,
                       MatrixShape shape_of_table, Stream stream);
void embedding_backward(const Buffer& grad_y, const Buffer& indices,
                        const GradientTarget& grad_table, MatrixShape shape_of_table,
                        Stream stream);

}  // namespace ddp::cu
