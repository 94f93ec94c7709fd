// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "support/simulated_group.h"

namespace ddp::bench {

// simulated_group.h on a CUDA device: an all_reduce is a kernel of so many blocks (see
// simulated_collective.h) that takes the link's time on a stream of the group's own, between
// events, as NCCL's does.
[[nodiscard]] std::shared_ptr<ProcessGroup> make_simulated_device_group(const SimulatedLink& link,
                                                                        unsigned blocks,
                                                                        int world_size,
                                                                        Device device);

}  // namespace ddp::bench
