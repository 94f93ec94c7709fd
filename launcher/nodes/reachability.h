// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/endpoint.h"
#include "launcher/nodes/patience.h"

namespace ddp::launcher {

// Throws LaunchError for a store on a loopback address or 0.0.0.0, which no other host can reach.
// Retries an unknown name for kLateName.
void check_reachable(const Endpoint& store, int node_count, Patience& patience);

}  // namespace ddp::launcher
