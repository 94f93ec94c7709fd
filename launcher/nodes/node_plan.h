// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/endpoint.h"

namespace ddp::launcher {

// What a launcher knows of its job before it meets the others.
struct NodePlan {
  std::optional<int> rank = 0;  // nothing: the next free one
  int count = 1;
  std::string count_source = {};         // for messages: who counted the nodes; empty: the user
  Endpoint store = {};                   // node 0's, as the others reach it
  std::vector<Endpoint> addresses = {};  // of that name, in digits; empty: not looked up
  std::vector<Endpoint> listening = {};  // those that node 0 has bound
  std::uint16_t worker_port = 0;         // on node 0's host; node 0 chooses it
  std::string run_id = {};               // node 0 must have one; empty: any
  std::string terms = {};                // flags that must be the same on all nodes

  [[nodiscard]] std::vector<Endpoint> store_addresses() const {
    return addresses.empty() ? std::vector{store} : addresses;
  }
};

}  // namespace ddp::launcher
