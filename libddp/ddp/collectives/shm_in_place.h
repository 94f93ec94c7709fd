// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/collectives/collective.h"
#include "ddp/collectives/shm_context.h"
#include "ddp/collectives/shm_heap.h"

namespace ddp::shm {

// Collectives whose operands lie where every rank can reach them: all_reduce, reduce and broadcast.
// The operand is cut into chunks. Whoever waits takes the next one, reads it from all ranks, and
// writes the result to all that get it: no element is copied on its way, a rank that still computes
// is not needed, and one that waits works for it. The sum of a chunk does not depend on who takes
// it: its terms are added in the order of the ranks.

// True for the kinds that can be done so.
[[nodiscard]] bool works_in_place(CollectiveKind kind);
// True if at least one rank posted an operand in memory that others reach, so that this collective
// is done in place by all.
[[nodiscard]] bool is_posted_in_place(const Context& context, std::uint64_t number);
void run_in_place(Context& context, Heap& heap, const Collective& operation, std::uint64_t number);

}  // namespace ddp::shm
