// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/socket.h"

namespace ddp::launcher {

// Where rank 0 is to listen (--store worker). The port (0: any) is free on every interface now,
// since programs may bind any of them. It stays unbound, so another process may take it before rank
// 0 does. Throws LaunchError that names the process that holds the port if it is taken.
[[nodiscard]] Endpoint choose_worker_port(const Endpoint& wanted);

}  // namespace ddp::launcher
