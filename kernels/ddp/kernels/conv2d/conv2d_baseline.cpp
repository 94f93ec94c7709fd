// SPDX-License-Identifier: MIT
#include "ddp/kernels/conv2d/conv2d_loops_of.h"

namespace ddp::detail {

// Every x86-64 has SSE2, and every 64-bit ARM has NEON.
const Conv2dLoopsOfBoth& conv2d_baseline_loops() { return kLoopsOf<16>; }

}  // namespace ddp::detail
