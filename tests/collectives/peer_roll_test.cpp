// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/peer_roll.h"

#include <catch2/catch.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ddp/store/hash_store.h"
#include "support/dead_rank.h"
#include "support/forwarding_store.h"

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
  CHECK(self.fate_of(1) == Fate::kLeft);
  CHECK(missed(CollectiveKind::kAllReduce, 8));
  CHECK_FALSE(missed(CollectiveKind::kAllReduce, 7));
  // Transfers are counted by pairs of ranks.
  CHECK(missed(CollectiveKind::kRecv, 1));
}

TEST_CASE("of several missing ranks the one whose connection is lost is named", "[peer-roll]") {
  const HashStore store;
  GroupConfig config{.store = store.clone(), .background_store = store.clone(), .world_size = 4};
  PeerRoll self(config);
  config.rank = 2;
  PeerRoll leaver(config);
  leaver.leave(7);
  const auto missing = [&](int suspect) {
    const auto lost = self.missing([] { return true; }, suspect);
    return lost ? lost->name + " " + to_string(lost->fate) : "";
  };
  CHECK_THAT(missing(2), Catch::StartsWith("rank 2 (") && Catch::EndsWith(" left the group"));
  CHECK(missing(1).empty());
  test::write_dead_rank(store, 3);
  CHECK_THAT(missing(1), Catch::StartsWith("rank 3") && Catch::EndsWith(" died"));
  CHECK_THAT(missing(2), Catch::StartsWith("rank 2") && Catch::EndsWith(" left the group"));
}

// All ranks ask at the same time, and one thread answers them.
TEST_CASE("a missing rank is found with few requests, however many ranks there are",
          "[peer-roll]") {
  class CountingStore final : public test::ForwardingStore {
   public:
    CountingStore(std::shared_ptr<Store> store, std::shared_ptr<int> requests)
        : ForwardingStore(std::move(store)), requests_(std::move(requests)) {}

    std::string get(std::string_view key, Timeout timeout) override {
      ++*requests_;
      return store()->get(key, timeout);
    }
    std::string compare_set(std::string_view key, std::string_view expected,
                            std::string_view desired) override {
      ++*requests_;
      return store()->compare_set(key, expected, desired);
    }
    bool check(std::span<const std::string> keys) override {
      ++*requests_;
      return store()->check(keys);
    }
    std::shared_ptr<Store> clone(Timeout timeout) const override {
      return std::make_shared<CountingStore>(store()->clone(timeout), requests_);
    }

   private:
    std::shared_ptr<int> requests_;
  };
  const HashStore store;
  const auto requests = std::make_shared<int>(0);
  GroupConfig config{.store = store.clone(),
                     .background_store = std::make_shared<CountingStore>(store.clone(), requests),
                     .world_size = 1000};
  PeerRoll self(config);
  *requests = 0;
  CHECK_FALSE(self.missing([] { return true; }));
  CHECK(*requests < 10);
  test::write_dead_rank(store, 777);
  const auto lost = self.missing();
  REQUIRE(lost);
  CHECK_THAT(lost->name, Catch::StartsWith("rank 777"));
  CHECK(lost->fate == Fate::kDied);
  CHECK(*requests < 30);
}
