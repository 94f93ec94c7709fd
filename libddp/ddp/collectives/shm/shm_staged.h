// SPDX-License-Identifier: MIT
//
// Collectives of any operands. They move in chunks, which stay in cache, through the ranks' slots.
// A slot has two halves that are used in turn: a rank that is one chunk ahead writes the half that
// the others are not reading, and it cannot get two chunks ahead, since every chunk has a barrier.
//
//   exchange  broadcast, gather, scatter, all_gather, all_to_all: ranks that have data copy a chunk
//             into their slots; barrier; ranks that want data copy it out.
//   reduce    every rank copies a chunk, except its own share, into its slot; barrier; rank r
//             reduces the r-th share over all slots and leaves the result in its own slot; barrier;
//             all ranks (all_reduce) or the root (reduce) copy the shares out. reduce_scatter needs
//             no second barrier: rank r's share is its result.
#pragma once

#include <span>

#include "ddp/base/buffer.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/shm/shm_member.h"

namespace ddp::shm {

// Completes any collective except send, recv and barrier; all ranks have agreed on it. `terms` is
// memory for one Buffer per rank.
void run_staged(Member& self, const Collective& operation, std::span<Buffer> terms);

}  // namespace ddp::shm
