// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>

#include "ddp/base/allocation.h"
#include "ddp/base/time.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// True if no operand is touched any more, within the timeout.
using WaitIdle = std::function<bool(Timeout)>;

// Memory for a group's operands. Releasing it waits until the group is idle, since an exception may
// free a bucket while it is being reduced; a group that does not become idle within
// OperationQueue::kErrorGrace is broken. `wait_idle` is only called while the group lives.
[[nodiscard]] Allocation guard_operand_memory(Allocation memory, WaitIdle wait_idle,
                                              std::weak_ptr<ProcessGroup> group);

}  // namespace ddp
