// SPDX-License-Identifier: MIT
//
// Compiled with -mavx2 -mfma, alone in the project.
#include "ddp/kernels/conv2d/conv2d_loops_of.h"

namespace ddp::detail {

const Conv2dLoopsOfBoth* conv2d_avx2_loops() {
  const bool runs_here = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return runs_here ? &kLoopsOf<32> : nullptr;
}

}  // namespace ddp::detail
