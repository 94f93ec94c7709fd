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

// Where a job meets, as far as this launcher is concerned.
struct JobSite {
  std::unique_ptr<TcpServer> store;  // null if this launcher does not host it
  std::unique_ptr<OtherNodes> nodes;
};

// Opens the store, or finds that of node 0, meets the other nodes there and fills in what `job` did
// not know: its store, run id, ranks and nodes. `job` knows its local world size.
//
// Without a node rank (rdzv_backend c10d) the launcher that can bind the endpoint becomes node 0,
// and the others get their ranks as they come. Throws LaunchError, also if a signal ends the wait,
// or SystemError.
[[nodiscard]] JobSite open_site(const NodeOptions& options, JobContext& job, SignalReader& signals,
                                Console& console);

}  // namespace ddp::launcher
