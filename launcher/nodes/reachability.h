// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "ddp/base/endpoint.h"
#include "ddp/base/net/resolve.h"
#include "ddp/base/time.h"
#include "launcher/nodes/patience.h"

namespace ddp::launcher {

// The addresses of node 0's name, in digits, which is looked up once, however long that takes, but
// again for kLateName while it is not known. Throws LaunchError for a store on a loopback address
// or 0.0.0.0, which no other host can reach.
[[nodiscard]] std::vector<Endpoint> find_node0(const Endpoint& store, int node_count,
                                               Patience& patience);

// Looks a name up again every few seconds, in the background: a host that is started anew may have
// another address.
class NameWatch {
 public:
  explicit NameWatch(Endpoint name, Timeout period = std::chrono::seconds(5))
      : name_(std::move(name)), period_(period), next_(Deadline::after(period)) {}

  // Never waits. Replaces addresses that have been looked up before, once there are new ones.
  void refresh(std::vector<Endpoint>& addresses);

 private:
  Endpoint name_;
  Timeout period_;
  Deadline next_;
  std::optional<LookUp> look_up_;
};

}  // namespace ddp::launcher
