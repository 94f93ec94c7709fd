// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/peer_roll.h"

#include <catch2/catch.hpp>
#include <limits>

#include "ddp/collectives/peers/rank_identity.h"
#include "ddp/store/hash_store.h"
#include "ddp/store/prefix_store.h"

using namespace ddp;

TEST_CASE("a rank that left has missed the collectives after those it submitted", "[peer-roll]") {
  const HashStore store;
  GroupConfig config{.store = store.clone(), .background_store = store.clone(), .world_size = 2};
  const PeerRoll self(config);
  config.rank = 1;
  PeerRoll peer(config);
  const auto missed = [&](CollectiveKind kind, std::uint64_t sequence) {
    return self.left_before(1, {.sequence = sequence, .kind = kind});
  };
  CHECK_FALSE(missed(CollectiveKind::kAllReduce, 8));
  CHECK_FALSE(missed(CollectiveKind::kRecv, 8));
  peer.leave(7);
  CHECK(self.fate_of(1) == PeerRoll::Fate::kLeft);
  CHECK(missed(CollectiveKind::kAllReduce, 8));
  CHECK_FALSE(missed(CollectiveKind::kAllReduce, 7));
  // Transfers are counted by pairs of ranks.
  CHECK(missed(CollectiveKind::kRecv, 1));
}

TEST_CASE("of several missing ranks the one whose connection is lost is named", "[peer-roll]") {
  const HashStore store;
  GroupConfig config{.store = store.clone(), .background_store = store.clone(), .world_size = 4};
  const PeerRoll self(config);
  config.rank = 2;
  PeerRoll leaver(config);
  leaver.leave(7);
  const auto missing = [&](int suspect) { return self.missing([] { return true; }, suspect); };
  CHECK_THAT(missing(2), Catch::EndsWith("left the group"));
  CHECK(missing(1).empty());
  RankIdentity dead = identify_self(3, kCpuDevice);
  dead.pid = std::numeric_limits<int>::max();  // Linux has no such pid
  PrefixStore("roll", store.clone()).set("who/3", serialize(dead));
  CHECK_THAT(missing(1), Catch::StartsWith("rank 3") && Catch::EndsWith(" died"));
  CHECK_THAT(missing(2), Catch::StartsWith("rank 2") && Catch::EndsWith(" left the group"));
}
