// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"

namespace ddp::bench {

// A kernel that takes the resources of a collective's kernel from those that run beside it:
// `blocks` thread blocks with as many threads as NCCL's. They read and write the operand, without
// changing it, until `time` is over.
void launch_simulated_collective(const Buffer& operand, std::chrono::nanoseconds time,
                                 unsigned blocks, Stream stream);

// Returns `count` steps, in nanoseconds, by which the clock of the simulated collective advances;
// fewer if the clock stands still. Steps that are shorter than a reading of the clock are not seen.
[[nodiscard]] std::vector<double> steps_of_device_clock(Device device, std::size_t count);

}  // namespace ddp::bench
