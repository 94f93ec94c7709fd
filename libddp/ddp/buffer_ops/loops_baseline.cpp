// SPDX-License-Identifier: MIT
#include "ddp/buffer_ops/loops_of.h"

namespace ddp::buffer_ops {

// Every x86-64 has SSE2, and every 64-bit ARM has NEON.
const Loops& baseline_loops() {
  static constexpr Loops kLoops = make_loops<16, PortableFloat16Format<16>>();
  return kLoops;
}

}  // namespace ddp::buffer_ops
