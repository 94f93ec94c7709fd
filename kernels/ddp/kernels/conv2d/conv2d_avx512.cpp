// SPDX-License-Identifier: MIT
//
// Compiled with -mavx512f -mavx512dq -mavx512vl -mfma, alone in the project.
#include "ddp/kernels/conv2d/conv2d_loops_of.h"

namespace ddp::detail {

const Conv2dLoopsOfBoth* conv2d_avx512_loops() {
  const bool runs_here = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
  return runs_here ? &kLoopsOf<64> : nullptr;
}

}  // namespace ddp::detail
