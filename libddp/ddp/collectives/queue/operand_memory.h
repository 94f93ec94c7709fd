// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/base/time.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// True if no operation touches the memory any more, within the timeout.
using WaitReleased = std::function<bool(const Buffer& memory, Timeout)>;

// Memory for a group's operands. Releasing it waits until no operation of the group uses it, since
// an exception may free a bucket while it is being reduced; if one still does after
// OperationQueue::kErrorGrace, the group is broken. `wait_released` is only called while the group
// lives.
[[nodiscard]] Allocation guard_operand_memory(Allocation memory, WaitReleased wait_released,
                                              std::weak_ptr<ProcessGroup> group);

}  // namespace ddp
