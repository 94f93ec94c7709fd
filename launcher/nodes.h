// SPDX-License-Identifier: MIT
//
// The nodes of a job: one launcher on each, which meet in the store that node 0's hosts.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/socket.h"
#include "ddp/store/store.h"
#include "launcher/patience.h"

namespace ddp::launcher {

struct Node {
  std::string host;  // its name
  pid_t launcher = 0;
  int workers = 0;
};

// "node 1 (gpu-b)"
[[nodiscard]] std::string describe_node(int rank, const std::string& host);

struct NodePlan {
  std::optional<int> rank = 0;  // nothing: the next that is free
  int count = 1;
  Endpoint store = {};            // node 0's, where the others reach it
  std::uint16_t worker_port = 0;  // where the workers meet on node 0's host, as it decides
  std::string run_id = {};        // node 0 has one; empty: any
  std::string terms = {};         // flags that are to be the same on all nodes
};

// Refuses a store on a loopback address, which no other host reaches (LaunchError). A name that is
// not known is asked for again during kLateName.
void check_reachable(const Endpoint& store, int node_count, Patience& patience);

// Serialised for the store: one field a line.
[[nodiscard]] std::string serialize(const Node& node);
[[nodiscard]] Node parse_node(const std::string& text);

struct Meeting {
  std::shared_ptr<Store> store = {};  // the launchers' part of it
  int self = 0;                       // this node's rank
  std::vector<Node> nodes = {};       // by rank
  std::string run_id = {};
  std::uint16_t worker_port = 0;

  // Of the first worker of a node, and of all.
  [[nodiscard]] int first_rank(int node) const;
  [[nodiscard]] int world_size() const { return first_rank(static_cast<int>(nodes.size())); }
};

// Waits until all nodes are there, and says every few seconds which are not. A node 0 that does not
// answer for a while is waited for, as is one that is not there yet. Throws LaunchError if they do
// not come in time, if two have the same rank, if they are of different jobs, or if a signal ends
// the wait. Who gives up makes room for another try.
[[nodiscard]] Meeting meet_nodes(const NodePlan& plan, const Node& self, Patience& patience);

}  // namespace ddp::launcher
