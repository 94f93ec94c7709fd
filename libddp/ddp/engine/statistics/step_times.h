// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ddp/base/time.h"

namespace ddp {

// The times of one step on this rank, on the host's clock. On CUDA all but `begin` are measured on
// the device.
struct StepTimes {
  struct Bucket {
    std::size_t size_bytes = 0;
    Clock::time_point ready;            // the bucket's last gradient was final
    std::optional<Interval> reduction;  // the all_reduce; none in a world of one
  };

  Clock::time_point begin;         // begin_step()
  Clock::time_point backward_end;  // wait() was called: all gradients are final
  Clock::time_point end;           // all gradients are reduced
  std::vector<Bucket> buckets;     // in launch order
};

}  // namespace ddp
