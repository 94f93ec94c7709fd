// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/embedding.h"

namespace ddp::detail {

// `rows` has one row per index: y, or its gradient.
inline void check_embedding(const char* kernel, const Buffer& table, const Buffer& indices,
                            const Buffer& rows, MatrixShape shape) {
  require(kernel, "the table", table, like(table, shape.count()));
  require(kernel, "indices", indices, like(table, indices.count, DType::kInt64));
  require(kernel, "y", rows, like(table, element_count({indices.count, shape.columns})));
}

}  // namespace ddp::detail
