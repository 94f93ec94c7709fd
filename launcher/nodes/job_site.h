// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "ddp/store/tcp_server.h"
#include "launcher/nodes/other_nodes.h"
#include "launcher/options/options.h"
#include "launcher/output/console.h"
#include "launcher/plan/worker_plan.h"
#include "launcher/processes/signals.h"

namespace ddp::launcher {

// Where a job meets, seen from this launcher.
struct JobSite {
  std::unique_ptr<TcpServer> store;  // null if this launcher does not host it
  std::unique_ptr<OtherNodes> nodes;
  JobLayout layout;
};

// Opens the store, or connects to node 0's, and meets the other nodes there; then store, run id and
// ranks are known. `assumed` has the number of this node's workers.
//
// Without a node rank (rdzv_backend c10d) the launcher whose host has the endpoint becomes node 0
// (reachability.h), and the others get their ranks in the order of arrival. Throws LaunchError,
// also if a signal ends the wait, or SystemError.
[[nodiscard]] JobSite open_site(const NodeOptions& options, const WorkerPlan& workers,
                                const JobLayout& assumed, SignalReader& signals, Console& console);

}  // namespace ddp::launcher
