// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/gemm.h"

namespace ddp::detail {

// True if oneDNN is on this machine.
[[nodiscard]] bool has_onednn_gemm();

// gemm() by oneDNN, for checked operands. False, and nothing is done, for what oneDNN does not
// compute (float64), for small products, and if there is no oneDNN.
//
// C has the same bits with any number of threads, unless A is transposed: that is mostly a sum over
// a batch, a gradient of a weight, and large ones take up to a fifth longer in tiles.
//
// Signals are blocked meanwhile, also on oneDNN's OpenMP threads, which are created meanwhile: most
// products of oneDNN 2.6 (AVX-512, K of 90 and more) let the stack pointer point to their workspace
// on the heap, as the handler of a signal sees, and the signal's frame is written over what lies
// below it.
[[nodiscard]] bool gemm_by_onednn(const Buffer& a, const Buffer& b, const Buffer& c,
                                  const GemmShape& shape, const GemmOptions& options);

// gemm_batched() likewise. A product has the same bits with any number of threads and of products,
// also if A is transposed.
[[nodiscard]] bool gemm_batched_by_onednn(const Buffer& a, const Buffer& b, const Buffer& c,
                                          const GemmShape& shape, const GemmOptions& options);

}  // namespace ddp::detail
