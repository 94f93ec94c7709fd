// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/gemm.h"

namespace ddp::detail {

// True if oneDNN is on this machine.
[[nodiscard]] bool has_onednn_gemm();

// Some of oneDNN's products (2.6, AVX-512, K of 100 and more) let the stack pointer point to their
// workspace on the heap: a signal's frame is then written over what lies below it. So oneDNN is
// called only while signals are blocked, also on its OpenMP threads, which are created meanwhile.
//
// gemm() by oneDNN, for checked operands. False, and nothing is done, for what oneDNN does not
// compute (float64), for small products, and if there is no oneDNN.
[[nodiscard]] bool gemm_by_onednn(const Buffer& a, const Buffer& b, const Buffer& c,
                                  const GemmShape& shape, const GemmOptions& options);

}  // namespace ddp::detail
