// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/base/buffer.h"

namespace ddp {

// One step's samples on this rank.
struct Batch {
  Buffer inputs;  // count * input_shape elements
  Buffer labels;  // count * label_shape elements, of the dataset's label_dtype
  std::int64_t epoch = 0;
  std::int64_t step = 0;          // within the plan
  std::int64_t count = 0;         // 0 if other ranks have this step's samples
  std::int64_t global_count = 0;  // on all ranks together
};

}  // namespace ddp
