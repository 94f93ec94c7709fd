// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/endpoint.h"
#include "ddp/base/net/resolve.h"
#include "ddp/base/time.h"
#include "launcher/nodes/patience.h"

namespace ddp::launcher {

// The addresses of node 0's name at which other hosts can reach it, in digits. It is looked up
// once, however long that takes, but again for kLateName while it is not known. Throws LaunchError
// if it has none but loopback addresses, or 0.0.0.0.
[[nodiscard]] std::vector<Endpoint> find_node0(const Endpoint& store, int node_count,
                                               Patience& patience);

// Which host is node 0, if no node has a rank: the one that has all addresses of the name. Others
// may have some of them, too, such as docker0's 172.17.0.1.
[[nodiscard]] bool has_all(std::span<const Endpoint> addresses);
// Some addresses of a name may be nobody's. For a host that has one of them, when nobody has
// answered at any: true if there is no host at the others that it lacks, not even one that refuses.
[[nodiscard]] bool has_all_that_live(std::span<const Endpoint> addresses);

// "; NAME also has 10.9.0.11: if this host is to be node 0, ...", for a host that has some of the
// addresses, but not all; else empty.
[[nodiscard]] std::string why_not_node0(const Endpoint& name, std::span<const Endpoint> addresses);

// Whether a name leads to other hosts only: if this one is node 0, to its last address perhaps.
[[nodiscard]] bool leads_elsewhere(const Endpoint& name, std::span<const Endpoint> addresses);

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
