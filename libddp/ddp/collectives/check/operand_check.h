// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ddp/collectives/collective.h"

namespace ddp {

// The rank that calls a collective, and its group.
struct Caller {
  int rank;  // in the group
  int world_size;
  Device device;
  const std::string& group;  // its name
};

// Throws std::invalid_argument if this call is wrong whatever the other ranks do: no memory,
// another device, a peer outside the group, sizes that do not fit, operands that overlap. The text
// has the group's numbers of ranks, as the call does, and names the group.
void check_operands(const Collective& call, const Caller& caller);

}  // namespace ddp
