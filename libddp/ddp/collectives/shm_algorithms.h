// SPDX-License-Identifier: MIT
//
// The collectives of the shm backend. All of them move their operands in chunks through the ranks'
// slots, which have two halves used in turn: a rank that is one chunk ahead writes the half that
// the others are not reading, and it cannot get two ahead, since every chunk has a meeting.
//
//   exchange (broadcast, gather, scatter, all_gather, all_to_all): who has data copies a chunk into
//     its slot; all meet; who wants data copies it out.
//   reduce: every rank copies a chunk into its slot; all meet; rank r reduces the r-th share of the
//     chunk over all slots and leaves the result in its own slot; all meet; everybody (all_reduce)
//     or the root (reduce) copies the shares out. reduce_scatter needs no second meeting: rank r's
//     share is its result.
//
// Summation order: ((x_0 + x_1) + x_2) + ... by rank, for each element, on whichever rank computes
// it; so all ranks get the same bits, and the same from run to run. 16-bit types are summed in
// float32 and rounded once. kAverage divides that sum by world_size.
#pragma once

#include "ddp/collectives/collective.h"
#include "ddp/collectives/shm_context.h"

namespace ddp::shm {

// Runs any collective but send and recv, to its end. All ranks have agreed on it.
void run_collective(Context& context, const Collective& operation);

}  // namespace ddp::shm
