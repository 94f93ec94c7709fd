// SPDX-License-Identifier: MIT
#include <cblas.h>

#include "ddp/kernels/detail/gemm_checks.h"
#include "ddp/kernels/gemm.h"

namespace ddp::cpu {
namespace {

CBLAS_TRANSPOSE to_cblas(Transpose transpose) {
  return transpose == Transpose::kYes ? CblasTrans : CblasNoTrans;
}

}  // namespace

void gemm(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
          const GemmOptions& options) {
  detail::check_gemm(a, b, c, shape);
  const auto [m, n, k] = shape;
  if (m == 0 || n == 0) return;
  const int lda = detail::leading_dimension(options.transpose_a, m, k);
  const int ldb = detail::leading_dimension(options.transpose_b, k, n);
  const auto call = [&](auto blas_gemm, auto element) {
    using T = decltype(element);
    blas_gemm(CblasRowMajor, to_cblas(options.transpose_a), to_cblas(options.transpose_b),
              detail::blas_int(m), detail::blas_int(n), detail::blas_int(k),
              static_cast<T>(options.alpha), static_cast<const T*>(a.data), lda,
              static_cast<const T*>(b.data), ldb, static_cast<T>(options.beta),
              static_cast<T*>(c.data), detail::blas_int(n));
  };
  detail::dispatch_float("gemm", c.dtype, [&](auto element) {
    if constexpr (sizeof(element) == sizeof(float)) {
      call(cblas_sgemm, element);
    } else {
      call(cblas_dgemm, element);
    }
  });
}

}  // namespace ddp::cpu
