// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/gemm.h"
#include "ddp/nn/tape.h"

namespace ddp::nn {

// As matmul(), with alpha as a factor; kYes: b is ... x n x k.
[[nodiscard]] Variable scaled_matmul(Tape& tape, const Variable& a, const Variable& b,
                                     Transpose transpose_b, double alpha);

}  // namespace ddp::nn
