// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ddp/kernels/detail/gemm_checks.h"
#include "ddp/kernels/detail/gemm_onednn.h"
#include "ddp/kernels/gemm.h"

namespace ddp::cpu {
namespace {

// Operand `i` of a batch, or the only one.
Buffer operand(const Buffer& all, std::size_t matrix, std::size_t i) {
  return all.slice(all.count == matrix ? 0 : i * matrix, matrix);
}

}  // namespace

void gemm_batched(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
                  const GemmOptions& options) {
  detail::check_gemm_batched(a, b, c, shape);
  if (detail::gemm_batched_by_onednn(a, b, c, shape, options)) return;
  const auto [m, n, k] = shape;
  const std::size_t products = c.count / std::max<std::size_t>(1, m * n);
  for (std::size_t i = 0; i < products; ++i) {
    gemm(operand(a, m * k, i), operand(b, k * n, i), c.slice(i * m * n, m * n), shape, options);
  }
}

}  // namespace ddp::cpu
