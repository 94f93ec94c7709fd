// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/socket.h"

namespace ddp::launcher {

// Where rank 0 is to listen (--store worker). The port, or with 0 some port, is free on every
// interface now, as programs may bind any of them, and stays unbound: somebody else may take it
// before rank 0 does. Throws LaunchError that says who has the port if it is taken.
[[nodiscard]] Endpoint choose_worker_port(const Endpoint& wanted);

}  // namespace ddp::launcher
