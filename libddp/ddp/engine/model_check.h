// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/distributed_data_parallel.h"

namespace ddp {

// Throws MismatchError on every rank, naming the first parameter that differs, unless all ranks
// pass equal names, shapes, dtypes and options. Collective; equal models cost one small all_gather.
void check_equal_models(ProcessGroup& group, std::span<const Parameter> parameters,
                        const DdpOptions& options);

// Gives every rank the values and buffers of rank 0. Collective; returns when done.
void broadcast_model(ProcessGroup& group, std::span<const Parameter> parameters,
                     std::span<const ModelBuffer> buffers);

}  // namespace ddp
