// SPDX-License-Identifier: MIT
//
// The loops of loops_of.h compiled for one instruction set; buffer_ops_cpu.cpp chooses one set. All
// sets compute the same bits, except that any of several NaNs in a sum may be the result.
#pragma once

#include <cstddef>

#include "ddp/base/buffer.h"
#include "ddp/base/dtype.h"
#include "ddp/base/reduce_op.h"

namespace ddp::buffer_ops {

// Operands are checked: all on the CPU, of one count and dtype; there is at least one term.
struct Reduction {
  const Buffer* terms;
  std::size_t term_count;
  const Buffer* targets;
  std::size_t target_count;
  double factor;  // of kAverage
};

using ReduceLoop = void (*)(const Reduction&);
using CastLoop = void (*)(const void* source, void* target, std::size_t count);

// Indexed by DType and by ReduceOp.
struct Loops {
  // Every target = terms[0] op terms[1] op ..., rounded once. kAverage is the sum times `factor`;
  // null for integers.
  ReduceLoop reduce[7][5];
  // Between float32, float16 and bfloat16; null for any other pair.
  CastLoop cast[7][7];

  [[nodiscard]] ReduceLoop reduce_of(DType dtype, ReduceOp op) const {
    return reduce[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)];
  }
  [[nodiscard]] CastLoop cast_of(DType from, DType to) const {
    return cast[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }
};

// For every processor of the target architecture.
[[nodiscard]] const Loops& baseline_loops();
// For x86 processors with AVX2 and F16C; null on another processor.
[[nodiscard]] const Loops* avx2_loops();

}  // namespace ddp::buffer_ops
