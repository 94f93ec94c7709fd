// SPDX-License-Identifier: MIT
//
// Stands in for gemm_onednn.cpp in a build without oneDNN.
#include "ddp/kernels/detail/gemm_onednn.h"

namespace ddp::detail {

bool has_onednn_gemm() { return false; }

bool gemm_by_onednn(const Buffer&, const Buffer&, const Buffer&, const GemmShape&,
                    const GemmOptions&) {
  return false;
}

bool gemm_batched_by_onednn(const Buffer&, const Buffer&, const Buffer&, const GemmShape&,
                            const GemmOptions&) {
  return false;
}

}  // namespace ddp::detail
