// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "support/simulated_group.h"

namespace ddp::bench {

// The group of simulated_group.h on a CUDA device. An all_reduce is a kernel of `blocks` blocks
// (see simulated_collective.h), which takes the link's time on a stream of the group, between
// events, as in NCCL's group.
[[nodiscard]] std::shared_ptr<ProcessGroup> make_simulated_device_group(const SimulatedLink& link,
                                                                        unsigned blocks,
                                                                        int world_size,
                                                                        Device device);

}  // namespace ddp::bench
