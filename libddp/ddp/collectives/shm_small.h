// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>

#include "ddp/collectives/collective.h"
#include "ddp/collectives/shm_context.h"

namespace ddp::shm {

// Small collectives: each rank posts a copy of its operand and takes what it needs from the posts
// of the others, so that none waits for more than that all have called. A reduction is done by
// every rank for itself, in the order of the ranks.

// True if this collective is small, which is the same on all ranks that called the same one.
[[nodiscard]] bool is_small(const Collective& operation, int world_size);
// What this rank has to post of it.
[[nodiscard]] std::span<const std::byte> elements_to_post(const Collective& operation, int rank);
// The rest, once all ranks have posted it as `number`.
void run_small(const Context& context, const Collective& operation, std::uint64_t number);

}  // namespace ddp::shm
