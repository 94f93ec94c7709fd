// SPDX-License-Identifier: MIT
#pragma once

#include <limits>
#include <memory>
#include <string>

#include "ddp/collectives/failure/store_list.h"
#include "ddp/collectives/peers/rank_identity.h"
#include "ddp/store/prefix_store.h"

namespace ddp::test {

// Writes into a group's store what a rank of this host does that joins its PeerRoll and dies.
inline RankIdentity write_dead_rank(const Store& store, int rank, Device device = kCpuDevice) {
  const auto roll = std::make_shared<PrefixStore>("roll", store.clone());
  RankIdentity dead = identify_self(rank, device);
  dead.pid = std::numeric_limits<int>::max();  // Linux has no such process
  roll->set("who/" + std::to_string(rank), serialize(dead));
  StoreList(roll, "on " + host_identity()).append(std::to_string(rank) + " " + serialize(dead));
  return dead;
}

}  // namespace ddp::test
