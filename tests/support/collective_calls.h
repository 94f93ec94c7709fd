// SPDX-License-Identifier: MIT
//
// Collectives that a recorder can note; they have no memory and cannot run.
#pragma once

#include <cstddef>

#include "ddp/collectives/collective.h"

namespace ddp::test {

inline Collective all_reduce(std::size_t count = 1) {
  const Buffer buffer{nullptr, count, DType::kFloat32, kCpuDevice};
  return {CollectiveKind::kAllReduce, buffer, buffer, ReduceOp::kSum, 0};
}

}  // namespace ddp::test
