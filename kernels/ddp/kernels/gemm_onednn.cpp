// SPDX-License-Identifier: MIT
#include <dnnl.h>

#include "ddp/base/all_signals_blocked.h"
#include "ddp/base/dynamic_library.h"
#include "ddp/kernels/conv2d/onednn_version.h"
#include "ddp/kernels/detail/gemm_onednn.h"

namespace ddp::detail {
namespace {

using Sgemm = decltype(dnnl_sgemm);

// Below it, OpenBLAS's lower cost of a call outweighs oneDNN's faster loops. The rows of A do not
// count: they are often a batch, and a sample's result should not depend on the others.
constexpr std::size_t kWorthwhile = 1024;

// Null if there is none. OpenMP's threads, which oneDNN brings along, would lose their code if it
// was closed.
Sgemm* sgemm() {
  static Sgemm* const found = [] {
    const DynamicLibrary library(DDP_ONEDNN_SONAME, DynamicLibrary::Lifetime::kProcess);
    Sgemm* function = nullptr;
    return library.find("dnnl_sgemm", function) ? function : nullptr;
  }();
  return found;
}

char to_dnnl(Transpose transpose) { return transpose == Transpose::kYes ? 'T' : 'N'; }

dnnl_dim_t leading_dimension(Transpose transpose, std::size_t rows, std::size_t columns) {
  return static_cast<dnnl_dim_t>(transpose == Transpose::kYes ? rows : columns);
}

}  // namespace

bool has_onednn_gemm() { return sgemm() != nullptr; }

bool gemm_by_onednn(const Buffer& a, const Buffer& b, const Buffer& c, const GemmShape& shape,
                    const GemmOptions& options) {
  const auto [m, n, k] = shape;
  if (c.dtype != DType::kFloat32 || n * k < kWorthwhile || m == 0) return false;
  if (!has_onednn_gemm()) return false;
  const AllSignalsBlocked blocked;  // see detail/gemm_onednn.h
  const dnnl_status_t status = sgemm()(
      to_dnnl(options.transpose_a), to_dnnl(options.transpose_b), static_cast<dnnl_dim_t>(m),
      static_cast<dnnl_dim_t>(n), static_cast<dnnl_dim_t>(k), static_cast<float>(options.alpha),
      static_cast<const float*>(a.data), leading_dimension(options.transpose_a, m, k),
      static_cast<const float*>(b.data), leading_dimension(options.transpose_b, k, n),
      static_cast<float>(options.beta), static_cast<float*>(c.data), static_cast<dnnl_dim_t>(n));
  cpu::check_onednn(status, "sgemm");
  return true;
}

}  // namespace ddp::detail
