// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"

namespace ddp::bench {

// What a collective's kernel takes from those beside it: `blocks` thread blocks, as many threads as
// NCCL's, which read and write the operand (as it is) over and over until the time is up.
void launch_simulated_collective(const Buffer& operand, std::chrono::nanoseconds time,
                                 unsigned blocks, Stream stream);

// By how many nanoseconds the clock that its time is taken from moves on, `count` times; fewer if
// it stands still. No step is seen that is smaller than the time of a look.
[[nodiscard]] std::vector<double> steps_of_device_clock(Device device, std::size_t count);

}  // namespace ddp::bench
