// SPDX-License-Identifier: MIT
#include "launcher/nodes/reachability.h"

#include <fmt/core.h>

#include <chrono>

#include "ddp/base/error.h"
#include "ddp/base/net/resolve.h"
#include "launcher/launch_error.h"

namespace ddp::launcher {
namespace {

constexpr Timeout kLookUpTimeout = std::chrono::seconds(1);
constexpr Timeout kBetweenLookUps{250};

AddressList find_node0(const Endpoint& store, Patience& patience) {
  const Deadline late = Deadline::after(kLateName);
  for (;;) {
    try {
      return resolve(store, 0, Deadline::after(kLookUpTimeout));
    } catch (const NetworkError& error) {
      if (late.passed()) throw;
      patience.wait([&] { return error.what(); }, kBetweenLookUps);
    }
  }
}

}  // namespace

void check_reachable(const Endpoint& store, int node_count, Patience& patience) {
  const AddressList addresses = find_node0(store, patience);
  if (is_any(*addresses->ai_addr)) {
    throw LaunchError(
        fmt::format("{} is where a host listens at all its addresses, not where others reach node "
                    "0; give one of its addresses (--master_addr)",
                    store.host));
  }
  if (!is_loopback(*addresses->ai_addr)) return;
  throw LaunchError(
      fmt::format("{} is a loopback address, which no other node can reach; give an address of "
                  "node 0 in the network that the {} nodes share (--master_addr); to try several "
                  "nodes on one machine, give one of "
                  "those that `hostname -I` prints",
                  store.host, node_count));
}

}  // namespace ddp::launcher
