// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/gemm.h"
#include "ddp/kernels/shapes.h"

namespace ddp::detail {

inline void check_gemm(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape) {
  require("gemm", "c", c, like(c, element_count({shape.m, shape.n})));
  require("gemm", "a", a, like(c, element_count({shape.m, shape.k})));
  require("gemm", "b", b, like(c, element_count({shape.k, shape.n})));
}

inline void check_gemm_batched(const Buffer& a, const Buffer& b, const Buffer& c,
                               const GemmShape& shape) {
  const std::size_t result = element_count({shape.m, shape.n});
  const std::size_t products = c.count / std::max<std::size_t>(1, result);
  const auto expected = [&](const Buffer& operand, std::size_t matrix) {
    // How many results without elements there are, c does not tell.
    const bool is_any = result == 0 && matrix > 0 && operand.count % matrix == 0;
    return like(
        c, is_any || operand.count == matrix ? operand.count : element_count({products, matrix}));
  };
  require("gemm_batched", "c", c, like(c, products * result));
  require("gemm_batched", "a", a, expected(a, element_count({shape.m, shape.k})));
  require("gemm_batched", "b", b, expected(b, element_count({shape.k, shape.n})));
}

// BLAS libraries use int for sizes.
inline int blas_int(std::size_t size) {
  if (size > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw std::invalid_argument("[kernels] gemm: a dimension of " + std::to_string(size) +
                                " is more than BLAS can count");
  }
  return static_cast<int>(size);
}

// The number of columns as stored; BLAS requires at least 1, also for an empty matrix.
inline int leading_dimension(Transpose transpose, std::size_t rows, std::size_t columns) {
  return blas_int(std::max<std::size_t>(1, transpose == Transpose::kYes ? rows : columns));
}

}  // namespace ddp::detail
