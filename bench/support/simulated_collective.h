// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"

namespace ddp::bench {

// What a collective's kernel takes from those beside it: `blocks` thread blocks, as many threads as
// NCCL's, which read and write the operand (as it is) over and over until the time is up.
void launch_simulated_collective(const Buffer& operand, std::chrono::nanoseconds time,
                                 unsigned blocks, Stream stream);

}  // namespace ddp::bench
