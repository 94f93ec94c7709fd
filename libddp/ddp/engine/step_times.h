// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ddp/base/time.h"

namespace ddp {

// When things happened in one step on this rank, on the host's clock. On CUDA the times are those
// of the device, but for `begin`.
struct StepTimes {
  struct Bucket {
    std::size_t size_bytes = 0;
    Clock::time_point ready;            // its last gradient was final
    std::optional<Interval> reduction;  // the all_reduce, if the group ran one
  };

  Clock::time_point begin;         // begin_step()
  Clock::time_point backward_end;  // wait() was called: all gradients are final
  Clock::time_point end;           // all of them are reduced
  std::vector<Bucket> buckets;     // in launch order
};

}  // namespace ddp
