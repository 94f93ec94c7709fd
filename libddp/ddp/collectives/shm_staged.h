// SPDX-License-Identifier: MIT
//
// Collectives of any operands. They move in chunks, which stay in cache, through the ranks' slots.
// These have two halves used in turn: a rank that is one chunk ahead writes the half that the
// others are not reading, and it cannot get two ahead, since every chunk has a barrier.
//
//   exchange (broadcast, gather, scatter, all_gather, all_to_all): who has data copies a chunk into
//     its slot; barrier; who wants data copies it out.
//   reduce: every rank copies a chunk, but for its own share, into its slot; barrier; rank r
//     reduces the r-th share over all slots and leaves the result in its own slot; barrier;
//     everybody (all_reduce) or the root (reduce) copies the shares out. reduce_scatter needs no
//     second barrier: rank r's share is its result.
#pragma once

#include <span>

#include "ddp/base/buffer.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/shm_member.h"

namespace ddp::shm {

// Runs any collective but send, recv and barrier, to its end. All ranks have agreed on it. `terms`
// is memory for a buffer of each rank.
void run_staged(Member& self, const Collective& operation, std::span<Buffer> terms);

}  // namespace ddp::shm
