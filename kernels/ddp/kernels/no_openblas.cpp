// SPDX-License-Identifier: MIT
//
// Stands in for gemm_openblas.cpp in a build without OpenBLAS: correct, and about ten times slower,
// except for what oneDNN computes.
// Row i of C is built from rows of B, so that the inner loop runs along memory and vectorises; a
// transposed B is turned over once.
#include <algorithm>
#include <vector>

#include "ddp/kernels/detail/gemm_checks.h"
#include "ddp/kernels/detail/gemm_onednn.h"
#include "ddp/kernels/gemm.h"

namespace ddp::cpu {
namespace {

template <class T>
void scale_row(T* row, std::size_t n, T beta) {
  if (beta == T{0}) {
    std::fill_n(row, n, T{0});
  } else if (beta != T{1}) {
    for (std::size_t j = 0; j < n; ++j) row[j] *= beta;
  }
}

// n x k to k x n.
template <class T>
std::vector<T> transposed(const T* b, std::size_t n, std::size_t k) {
  std::vector<T> result(n * k);
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t p = 0; p < k; ++p) result[p * n + j] = b[j * k + p];
  }
  return result;
}

template <class T>
void multiply(const T* a, const T* b, T* c, const GemmShape& shape, const GemmOptions& options) {
  const auto [m, n, k] = shape;
  const bool a_is_transposed = options.transpose_a == Transpose::kYes;
  const std::size_t row_step = a_is_transposed ? 1 : k;
  const std::size_t column_step = a_is_transposed ? m : 1;
  for (std::size_t i = 0; i < m; ++i) {
    T* row = c + i * n;
    scale_row(row, n, static_cast<T>(options.beta));
    for (std::size_t p = 0; p < k; ++p) {
      const T factor = static_cast<T>(options.alpha) * a[i * row_step + p * column_step];
      for (std::size_t j = 0; j < n; ++j) row[j] += factor * b[p * n + j];
    }
  }
}

}  // namespace

void gemm(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
          const GemmOptions& options) {
  detail::check_gemm(a, b, c, shape);
  if (detail::gemm_by_onednn(a, b, c, shape, options)) return;
  detail::dispatch_float("gemm", c.dtype, [&](auto element) {
    using T = decltype(element);
    std::vector<T> turned;
    const T* b_rows = static_cast<const T*>(b.data);
    if (options.transpose_b == Transpose::kYes) {
      turned = transposed(b_rows, shape.n, shape.k);
      b_rows = turned.data();
    }
    multiply(static_cast<const T*>(a.data), b_rows, static_cast<T*>(c.data), shape, options);
  });
}

}  // namespace ddp::cpu
