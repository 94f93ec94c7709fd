// SPDX-License-Identifier: MIT
//
// The nodes of a job: one launcher on each; they meet in the store that node 0's launcher hosts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddp/store/store.h"
#include "launcher/nodes/node.h"
#include "launcher/nodes/node_plan.h"
#include "launcher/nodes/patience.h"

namespace ddp::launcher {

struct Meeting {
  std::shared_ptr<Store> store = {};  // the launchers' part of the store
  int self = 0;                       // this node's rank
  std::vector<Node> nodes = {};       // by rank
  std::string run_id = {};
  std::uint16_t worker_port = 0;

  // The rank of the first worker of a node, and the number of all workers.
  [[nodiscard]] int first_rank(int node) const;
  [[nodiscard]] int world_size() const { return first_rank(static_cast<int>(nodes.size())); }
};

// For a launcher without a rank, whenever nobody serves the store: it may serve the store itself
// from then on, and make the plan that of node 0. True if it does.
using TakeStore = std::function<bool(NodePlan&)>;

// Waits until all nodes are there, and says every few seconds which are missing, and which one was
// refused and why. Also waits while node 0 does not exist yet, does not answer for a while, is
// started again, or still belongs to an earlier job. Throws LaunchError if nodes do not come in
// time, if two have the same rank, if they belong to different jobs, or if a signal ends the wait.
// A launcher that gives up removes its entry, so that it can try again; one that was killed is
// replaced.
[[nodiscard]] Meeting meet_nodes(
    NodePlan plan, const Node& self, Patience& patience,
    const TakeStore& take_store = [](NodePlan&) { return false; });

}  // namespace ddp::launcher
