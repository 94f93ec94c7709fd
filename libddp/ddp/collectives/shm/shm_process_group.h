// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "ddp/collectives/group_config.h"
#include "ddp/collectives/queue/queued_process_group.h"

namespace ddp {

// CPU ranks on one host, processes or threads, over shared memory. Collective: all ranks of
// `config` call it. world_size >= 2.
[[nodiscard]] std::shared_ptr<QueuedProcessGroup> make_shm_process_group(GroupConfig config);

}  // namespace ddp
