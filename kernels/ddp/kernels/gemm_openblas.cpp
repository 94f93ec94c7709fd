// SPDX-License-Identifier: MIT
#include <cblas.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>

#include "ddp/base/error.h"
#include "ddp/kernels/detail/gemm_checks.h"
#include "ddp/kernels/gemm.h"

namespace ddp::cpu {
namespace {

CBLAS_TRANSPOSE to_cblas(Transpose transpose) {
  return transpose == Transpose::kYes ? CblasTrans : CblasNoTrans;
}

// OpenBLAS maps this much at the first product, and if that is refused, tries again forever.
constexpr std::size_t kWorkBytes = std::size_t{129} << 20;

// So we ask for the same memory first. Throws SystemError.
bool check_work_memory() {
  void* const memory =
      ::mmap(nullptr, kWorkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw SystemError("[gemm] no 129 MiB of address space for OpenBLAS (see ulimit -v)", errno);
  }
  ::munmap(memory, kWorkBytes);
  return true;
}

}  // namespace

void gemm(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
          const GemmOptions& options) {
  detail::check_gemm(a, b, c, shape);
  const auto [m, n, k] = shape;
  if (m == 0 || n == 0) return;
  [[maybe_unused]] static const bool has_work_memory = check_work_memory();
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
