// SPDX-License-Identifier: MIT
//
// Collectives that a recorder can note; they have no memory and cannot run.
#pragma once

#include <cstddef>

#include "ddp/collectives/collective.h"
#include "ddp/collectives/hang/operation_labels.h"

namespace ddp::test {

inline Collective all_reduce(std::size_t count = 1, OperationLabels::Label label = 0) {
  const Buffer buffer{nullptr, count, DType::kFloat32, kCpuDevice};
  return {.kind = CollectiveKind::kAllReduce,
          .input = buffer,
          .output = buffer,
          .context = {.label = label}};
}

}  // namespace ddp::test
