// SPDX-License-Identifier: MIT
//
// Stands in for conv2d_avx2.cpp and conv2d_avx512.cpp where the compiler does not compile for x86.
#include "ddp/kernels/conv2d/conv2d_loops.h"

namespace ddp::detail {

const Conv2dLoopsOfBoth* conv2d_avx2_loops() { return nullptr; }

const Conv2dLoopsOfBoth* conv2d_avx512_loops() { return nullptr; }

}  // namespace ddp::detail
