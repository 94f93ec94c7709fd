// SPDX-License-Identifier: MIT
//
// The nodes of a job: one launcher on each; they meet in the store that node 0's launcher hosts.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/endpoint.h"
#include "ddp/store/store.h"
#include "launcher/launch_error.h"
#include "launcher/nodes/patience.h"

namespace ddp::launcher {

struct Node {
  std::string host;  // host name
  pid_t launcher = 0;
  int workers = 0;
};

// "node 1 (gpu-b)"
[[nodiscard]] std::string describe_node(int rank, const std::string& host);

struct NodePlan {
  std::optional<int> rank = 0;  // nothing: the next free one
  int count = 1;
  Endpoint store = {};            // node 0's, as the others reach it
  std::uint16_t worker_port = 0;  // on node 0's host; node 0 chooses it
  std::string run_id = {};        // node 0 must have one; empty: any
  std::string terms = {};         // flags that must be the same on all nodes
};

// Throws LaunchError for a store on a loopback address, which no other host can reach. Retries an
// unknown name for kLateName.
void check_reachable(const Endpoint& store, int node_count, Patience& patience);

// For the store: one field per line.
[[nodiscard]] std::string serialize(const Node& node);
[[nodiscard]] Node parse_node(const std::string& text);

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

// True if a job that is ending is served there.
[[nodiscard]] bool serves_ending_job(const Endpoint& store) noexcept;

// For a launcher that cannot take part: those that already wait say that this host was refused, and
// why. For one that has lost its agent, after that has met the others: they end the job with that
// sentence. Both take a second at most if there is no store.
void tell_refusal(const NodePlan& plan, const std::string& host,
                  const LaunchError& reason) noexcept;
void tell_loss(const NodePlan& plan, const std::string& host, pid_t agent,
               const std::string& sentence) noexcept;

}  // namespace ddp::launcher
