// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/loss_watch.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/store/hash_store.h"
#include "ddp/store/prefix_store.h"
#include "support/dead_rank.h"
#include "support/forwarding_store.h"
#include "support/run_ranks.h"

using namespace ddp;
using Catch::Matchers::Contains;
using test::error_of;

namespace {

constexpr Timeout kNone{0};
constexpr Timeout kLong{1'000'000};

Collective call(CollectiveKind kind, int peer = 0) {
  Collective collective;
  collective.kind = kind;
  collective.peer = peer;
  return collective;
}

// Counts the requests of one rank.
class CountingStore final : public test::ForwardingStore {
 public:
  CountingStore(std::shared_ptr<Store> store, int& requests)
      : ForwardingStore(std::move(store)), requests_(requests) {}
  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) override {
    ++requests_;
    return ForwardingStore::compare_set(key, expected, desired);
  }
  std::shared_ptr<Store> clone(Timeout timeout) const override { return store()->clone(timeout); }

 private:
  int& requests_;
};

// Rank 0 of several whose identities say that they are this process.
struct Survivor {
  GroupConfig config_of(int rank) const {
    return {
        .store = store.clone(), .background_store = store.clone(), .rank = rank, .world_size = 4};
  }
  void add_dead(int rank) const { test::write_dead_rank(store, rank); }
  LossWatch watch(Timeout for_dead, Timeout for_unknown = kLong, Timeout patience = kNone,
                  std::function<std::vector<LostRank>()> find_lost = nullptr) {
    if (!find_lost) find_lost = [this] { return roll.lost(); };
    return {config_of(0),
            {.backend = "test",
             .find_lost = std::move(find_lost),
             .patience = patience,
             .for_dead = for_dead,
             .for_unknown = for_unknown},
            recorder,
            roll,
            first_error};
  }
  [[nodiscard]] std::string error() const {
    return error_of([&] { first_error.rethrow_if_set(); });
  }
  std::string error_after_look(Timeout for_dead = kNone, Timeout for_unknown = kLong,
                               Timeout patience = kNone) {
    LossWatch own = watch(for_dead, for_unknown, patience);
    for (int i = 0; i < 2; ++i) own.look();  // the first one may see that an operation is done
    return error();
  }

  HashStore store;
  FlightRecorder recorder;
  PeerRoll roll{config_of(0)};
  FirstError first_error{store.clone(), 0};
};

}  // namespace

TEST_CASE("the error says what the operation is for", "[loss-watch]") {
  Survivor survivor;
  survivor.add_dead(2);
  Collective barrier = call(CollectiveKind::kBarrier);
  barrier.context.label = survivor.recorder.labels().add("bucket 4: layer3.*");
  survivor.recorder.submitted(1, barrier);
  static_cast<void>(survivor.error_after_look());
  CHECK_THAT(survivor.error_after_look(),
             Contains(") died, while rank 0 is in #1 barrier (bucket 4: layer3.*)"));
}

TEST_CASE("an operation that waits for a dead rank breaks the group", "[loss-watch]") {
  Survivor survivor;
  survivor.add_dead(2);
  CHECK(survivor.error_after_look().empty());  // nothing is pending
  survivor.recorder.submitted(1, call(CollectiveKind::kBarrier));
  CHECK(survivor.error_after_look(kNone, kLong, kLong).empty());  // not for long
  CHECK(survivor.error_after_look(kLong).empty());                // it may have done its part
  const std::string error = survivor.error_after_look();
  CHECK_THAT(error,
             Contains("[test] rank 2 (") && Contains(") died, while rank 0 is in #1 barrier"));
  CHECK_THROWS_AS(survivor.first_error.rethrow_if_set(), PeerError);
}

TEST_CASE("a dead rank has some time from its loss, and from the operation's turn",
          "[loss-watch]") {
  constexpr Timeout kGrace{3000};
  Survivor survivor;
  LossWatch watch = survivor.watch(kGrace);
  survivor.recorder.submitted(1, call(CollectiveKind::kBarrier));
  survivor.recorder.submitted(2, call(CollectiveKind::kBarrier));
  std::this_thread::sleep_for(kGrace);
  survivor.add_dead(2);
  watch.look();
  CHECK(survivor.error().empty());
  std::this_thread::sleep_for(kGrace);
  survivor.recorder.done(1, Clock::now());
  for (int i = 0; i < 2; ++i) watch.look();
  CHECK(survivor.error().empty());
  std::this_thread::sleep_for(kGrace);
  watch.look();
  CHECK_THAT(survivor.error(), Contains(") died, while rank 0 is in #2 barrier"));
}

TEST_CASE("nobody is looked for while operations end", "[loss-watch]") {
  Survivor survivor;
  int searches = 0;
  LossWatch watch = survivor.watch(kNone, kLong, kNone, [&] {
    ++searches;
    return std::vector<LostRank>();
  });
  for (std::uint64_t i = 1; i <= 3; ++i) {
    survivor.recorder.submitted(i, call(CollectiveKind::kBarrier));
    survivor.recorder.submitted(i + 1, call(CollectiveKind::kBarrier));
    survivor.recorder.done(i, Clock::now());
    watch.look();
  }
  CHECK(searches == 0);
  watch.look();
  CHECK(searches == 1);
}

TEST_CASE("a rank of unknown fate has a longer time than a dead one", "[loss-watch]") {
  Survivor survivor;
  survivor.recorder.submitted(1, call(CollectiveKind::kBarrier));
  const auto find_lost = [] {
    return std::vector<LostRank>{{2, Fate::kUnknown, "rank 2 (somewhere)"}};
  };
  survivor.watch(kNone, kLong, kNone, find_lost).look();
  CHECK(survivor.error().empty());
  survivor.watch(kLong, kNone, kNone, find_lost).look();
  CHECK(survivor.error() == "[test] rank 2 (somewhere) was lost, while rank 0 is in #1 barrier");
}

TEST_CASE("a rank that leaves breaks only collectives that come after its own", "[loss-watch]") {
  Survivor survivor;
  PeerRoll peer(survivor.config_of(3));
  peer.leave(1);
  survivor.recorder.submitted(1, call(CollectiveKind::kBarrier));
  survivor.recorder.submitted(2, call(CollectiveKind::kBarrier));
  CHECK(survivor.error_after_look(kNone, kNone).empty());
  survivor.recorder.done(1, Clock::now());
  CHECK_THAT(survivor.error_after_look(),
             Contains("rank 3 (") && Contains("left the group, while rank 0 is in #2 barrier"));
}

TEST_CASE("a send or recv is broken by its own peer only, which may have done its part",
          "[loss-watch]") {
  Survivor survivor;
  survivor.add_dead(2);
  PeerRoll peer(survivor.config_of(3));
  peer.leave(0);
  survivor.recorder.submitted(1, call(CollectiveKind::kSend, 1));
  CHECK(survivor.error_after_look(kNone, kNone).empty());
  survivor.recorder.submitted(1, call(CollectiveKind::kRecv, 3));  // of the same batch
  CHECK(survivor.error_after_look(kNone, kLong).empty());
  CHECK_THAT(survivor.error_after_look(kNone, kNone),
             Contains("rank 3 (") && Contains("left the group, while rank 0 is in #2 recv"));
}

TEST_CASE("a process that ended is lost, not dead, while the store does not answer",
          "[loss-watch]") {
  Survivor survivor;
  survivor.add_dead(2);
  bool is_down = false;
  class DownStore final : public test::ForwardingStore {
   public:
    DownStore(std::shared_ptr<Store> store, bool& is_down)
        : ForwardingStore(std::move(store)), is_down_(is_down) {}
    std::string compare_set(std::string_view key, std::string_view expected,
                            std::string_view desired) override {
      if (is_down_) throw NetworkError("the store is down");
      return ForwardingStore::compare_set(key, expected, desired);
    }
    std::shared_ptr<Store> clone(Timeout timeout) const override { return store()->clone(timeout); }

   private:
    bool& is_down_;
  };
  GroupConfig config = survivor.config_of(1);
  config.background_store = std::make_shared<DownStore>(survivor.store.clone(), is_down);
  PeerRoll roll(config);
  REQUIRE(roll.lost().size() == 1);
  CHECK(roll.lost()[0].fate == Fate::kDied);
  is_down = true;
  REQUIRE(roll.lost().size() == 1);
  CHECK(roll.lost()[0].rank == 2);
  CHECK_THAT(roll.lost()[0].name, Contains("rank 2 (") && Contains("pid 2147483647"));
  CHECK(roll.lost()[0].fate == Fate::kUnknown);
}

TEST_CASE("a list whose store stopped to answer in the middle is read from there again",
          "[loss-watch]") {
  class LateStore final : public test::ForwardingStore {
   public:
    LateStore(std::shared_ptr<Store> store, int& answers)
        : ForwardingStore(std::move(store)), answers_(answers) {}
    std::string compare_set(std::string_view key, std::string_view expected,
                            std::string_view desired) override {
      if (answers_-- == 0) throw TimeoutError("no answer");
      return ForwardingStore::compare_set(key, expected, desired);
    }
    std::shared_ptr<Store> clone(Timeout timeout) const override { return store()->clone(timeout); }

   private:
    int& answers_;
  };
  const HashStore store;
  StoreList writer(store.clone(), "list");
  writer.append("a");
  writer.append("b");
  int answers = 2;  // how many entries there are, and the first
  StoreList reader(std::make_shared<LateStore>(store.clone(), answers), "list");
  CHECK_THROWS_AS(reader.read_new(), TimeoutError);
  CHECK(reader.read_new() == std::vector<std::string>{"a", "b"});
  CHECK(reader.read_new().empty());
}

TEST_CASE("an entry that its writer never writes does not hide the others of a list",
          "[loss-watch]") {
  HashStore store;
  StoreList writer(store.clone(), "list");
  StoreList reader(store.clone(), "list");
  store.add("list", 1);  // a rank is killed before it writes
  writer.append("b");
  CHECK(reader.read_new() == std::vector<std::string>{"b"});
  store.set("list/1", "a");  // or was only slow
  writer.append("c");
  CHECK(reader.read_new() == std::vector<std::string>{"a", "c"});
  CHECK(reader.read_new().empty());
}

TEST_CASE("a rank that leaves is noticed although another one died while it left", "[loss-watch]") {
  Survivor survivor;
  PrefixStore("roll", survivor.store.clone()).add("leavers", 1);  // rank 3, without its entry
  PeerRoll(survivor.config_of(2)).leave(1);
  const std::vector<LostRank> lost = survivor.roll.lost();
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].rank == 2);
  CHECK(lost[0].fate == Fate::kLeft);
}

TEST_CASE("a rank that left is not dead while another one is slow to tell that it leaves",
          "[loss-watch]") {
  Survivor survivor;
  PrefixStore("roll", survivor.store.clone()).add("leavers", 1);  // rank 3 has yet to write it
  PeerRoll(survivor.config_of(2)).leave(1);
  survivor.add_dead(2);
  const std::vector<LostRank> lost = survivor.roll.lost();
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].rank == 2);
  CHECK(lost[0].fate == Fate::kLeft);
}

TEST_CASE("looking for lost ranks again and again asks for two keys", "[loss-watch]") {
  Survivor survivor;
  int requests = 0;
  GroupConfig config = survivor.config_of(1);
  config.background_store = std::make_shared<CountingStore>(survivor.store.clone(), requests);
  PeerRoll roll(config);
  const PeerRoll third(survivor.config_of(2));
  CHECK(roll.lost().empty());
  requests = 0;
  CHECK(roll.lost().empty());
  CHECK(requests == 2);
}
