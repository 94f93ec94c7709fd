// SPDX-License-Identifier: MIT
#include <cblas.h>
#include <fmt/core.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <string_view>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/kernels/detail/gemm_checks.h"
#include "ddp/kernels/detail/gemm_onednn.h"
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

// OpenBLAS has a list of processor models. On one that is newer than the list it runs code of 2004
// at a fifth of the speed; Debian 12's does on Intel's models since 2023. Returns the name of the
// code that it should run (a value of OPENBLAS_CORETYPE), or null if all is well.
const char* missed_core() {
#if defined(__x86_64__)
  if (std::string_view(openblas_get_corename()) != "Prescott") return nullptr;
  if (__builtin_cpu_supports("avx512bw")) return "SkylakeX";
  if (__builtin_cpu_supports("avx2")) return "Haswell";
#endif
  return nullptr;
}

bool warn_if_slow() {
  const char* const core = missed_core();
  if (core == nullptr || detail::has_onednn_gemm()) return false;
  logging::warning(fmt::format(
      "[kernels] this OpenBLAS does not know this processor and runs code for an old one, so that "
      "matrix products take several times as long as they need to. OPENBLAS_CORETYPE={} in the "
      "environment avoids this, as do a newer OpenBLAS and a build with oneDNN",
      core));
  return true;
}

}  // namespace

void gemm(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
          const GemmOptions& options) {
  detail::check_gemm(a, b, c, shape);
  const auto [m, n, k] = shape;
  if (m == 0 || n == 0) return;
  if (detail::gemm_by_onednn(a, b, c, shape, options)) return;
  [[maybe_unused]] static const bool has_warned = warn_if_slow();
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
