// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/peer_roll.h"

#include <catch2/catch.hpp>

#include "ddp/store/hash_store.h"

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
