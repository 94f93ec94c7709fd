// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

#include "ddp/base/allocation.h"
#include "ddp/collectives/operation_queue.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// Memory for a group's operands. Giving it back waits until the queue is idle, since an exception
// may free a bucket while it is being reduced; a queue that does not come to rest within
// OperationQueue::kErrorGrace breaks its group. `queue` is a part of the group.
[[nodiscard]] Allocation guard_operand_memory(Allocation memory, OperationQueue& queue,
                                              std::weak_ptr<ProcessGroup> group);

}  // namespace ddp
