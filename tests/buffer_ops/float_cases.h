// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <limits>

#include "ddp/base/dtype.h"
#include "ddp/base/reduce_op.h"

namespace ddp::test {

inline constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16,
                                    DType::kBFloat16};
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Of two terms; an average is divided later.
inline double combine(ReduceOp op, double a, double b) {
  if (op == ReduceOp::kProduct) return a * b;
  if (op == ReduceOp::kMin) return std::min(a, b);
  if (op == ReduceOp::kMax) return std::max(a, b);
  return a + b;
}

}  // namespace ddp::test
