// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/collectives/collective.h"

namespace ddp {

// The rank that calls a collective, and its group.
struct Caller {
  int rank = 0;
  int world_size = 1;
  Device device = kCpuDevice;
};

// Throws std::invalid_argument if this call is wrong whatever the other ranks do: no memory,
// another device, a peer outside the group, sizes that do not fit, operands that overlap.
void check_operands(const Collective& call, const Caller& caller);

}  // namespace ddp
