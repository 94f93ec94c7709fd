// SPDX-License-Identifier: MIT
//
// Stands in for loops_avx2.cpp where the compiler does not compile for x86.
#include "ddp/buffer_ops/loops.h"

namespace ddp::buffer_ops {

const Loops* avx2_loops() { return nullptr; }

}  // namespace ddp::buffer_ops
