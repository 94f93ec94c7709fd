// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "ddp/base/allocation.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// Memory for a group's operands. Freeing it calls ProcessGroup::release() first, if the group still
// lives, since an exception may free a bucket while it is being reduced.
[[nodiscard]] Allocation guard_operand_memory(Allocation memory, std::weak_ptr<ProcessGroup> group);

}  // namespace ddp
