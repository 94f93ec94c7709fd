// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "ddp/store/tcp_server.h"
#include "launcher/console.h"
#include "launcher/environment.h"
#include "launcher/options.h"
#include "launcher/other_nodes.h"
#include "launcher/signals.h"

namespace ddp::launcher {

// Where a job meets, seen from this launcher.
struct JobSite {
  std::unique_ptr<TcpServer> store;  // null if this launcher does not host it
  std::unique_ptr<OtherNodes> nodes;
};

// Opens the store, or connects to node 0's, meets the other nodes there, and completes `job`: its
// store, run id, ranks and nodes. `job` must have its local world size.
//
// Without a node rank (rdzv_backend c10d) the launcher that can bind the endpoint becomes node 0,
// and the others get their ranks in the order of arrival. Throws LaunchError, also if a signal ends
// the wait, or SystemError.
[[nodiscard]] JobSite open_site(const NodeOptions& options, JobContext& job, SignalReader& signals,
                                Console& console);

}  // namespace ddp::launcher
