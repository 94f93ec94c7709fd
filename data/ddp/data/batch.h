// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/base/buffer.h"

namespace ddp {

// The samples of one step on this rank.
struct Batch {
  Buffer inputs;       // count * input_shape elements
  Buffer labels;       // count * label_shape elements, of the dataset's label_dtype
  int rank = 0;        // whose part of the plan this is
  int world_size = 1;  // of the plan
  std::int64_t epoch = 0;
  std::uint32_t plan_fingerprint = 0;  // EpochPlan::fingerprint()
  std::int64_t step = 0;               // number of the step in the plan
  std::int64_t count = 0;              // 0 if only other ranks have samples in this step
  std::int64_t global_count = 0;       // samples of all ranks together
};

}  // namespace ddp
