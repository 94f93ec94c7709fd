// SPDX-License-Identifier: MIT
#include "ddp/collectives/check/call_check.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/store/hash_store.h"
#include "support/forwarding_store.h"
#include "support/gate.h"
#include "support/scoped_variable.h"

using namespace ddp;

namespace {

Collective call(CollectiveKind kind, std::size_t count) {
  const Buffer buffer{nullptr, count, DType::kFloat32, kCpuDevice};
  return {kind, buffer, buffer, ReduceOp::kSum, 0};
}

// The recorder and the call check of a rank, without a group.
class Rank {
 public:
  Rank(const Store& store, int rank, const CallCheckLimits& limits, test::Gate& complaints)
      : check_({.store = nullptr, .background_store = store.clone(), .rank = rank, .world_size = 4},
               recorder_, limits, [this, &complaints](const std::string& text) {
                 const std::lock_guard lock(mutex_);
                 complaint_ = text;
                 complaints.raise();
               }) {}

  void calls(CollectiveKind kind, std::size_t count) {
    recorder_->submitted(++operations_, call(kind, count));
  }
  void steps(std::uint64_t step) { recorder_->begin_step(step); }

  [[nodiscard]] std::string complaint() {
    const std::lock_guard lock(mutex_);
    return complaint_;
  }

 private:
  std::shared_ptr<FlightRecorder> recorder_ = std::make_shared<FlightRecorder>();
  std::uint64_t operations_ = 0;
  std::mutex mutex_;
  std::string complaint_;
  CallCheck check_;  // last member, since its thread uses the others
};

// Waits up to 10 s until call n is in the store.
bool is_published(HashStore& store, std::uint64_t n) {
  const std::string keys[] = {"call/" + std::to_string(n)};
  try {
    store.wait(keys, std::chrono::seconds(10));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

TEST_CASE("ranks that call the same collectives get no error", "[call_check]") {
  HashStore store;
  test::Gate complaints;
  Rank first(store, 0, {}, complaints);
  Rank second(store, 1, {}, complaints);
  for (std::size_t n = 1; n <= 20; ++n) {
    first.calls(CollectiveKind::kAllReduce, n);
    second.calls(CollectiveKind::kAllReduce, n);
  }
  CHECK(is_published(store, 20));
  CHECK(complaints.count() == 0);
}

TEST_CASE("a difference names both ranks and both calls", "[call_check]") {
  HashStore store;
  test::Gate complaints;
  Rank first(store, 0, {}, complaints);
  first.calls(CollectiveKind::kAllReduce, 8);
  first.calls(CollectiveKind::kAllReduce, 8);
  REQUIRE(is_published(store, 2));
  SECTION("another size") {
    Rank second(store, 1, {}, complaints);
    second.calls(CollectiveKind::kAllReduce, 8);
    second.calls(CollectiveKind::kAllReduce, 9);
    REQUIRE(complaints.wait_for(1));
    CHECK(second.complaint() ==
          "ranks called different collectives: rank 0 called #2 all_reduce(float32[8], sum), rank "
          "1 called #2 all_reduce(float32[9], sum)");
  }
  SECTION("another collective") {
    Rank second(store, 1, {}, complaints);
    second.calls(CollectiveKind::kBroadcast, 8);
    REQUIRE(complaints.wait_for(1));
    CHECK_THAT(second.complaint(), Catch::Contains("rank 1 called #1 broadcast(float32[8]"));
  }
  CHECK(first.complaint().empty());
}

// A hanging call is the last one, so nothing else tells that it differs.
TEST_CASE("a call is compared again if the store was late", "[call_check]") {
  class LateOnce final : public test::ForwardingStore {
   public:
    using ForwardingStore::ForwardingStore;

    std::string compare_set(std::string_view key, std::string_view expected,
                            std::string_view desired) override {
      if (!std::exchange(was_late_, true)) throw TimeoutError("the store is late");
      return store()->compare_set(key, expected, desired);
    }
    std::shared_ptr<Store> clone(Timeout timeout) const override {
      return std::make_shared<LateOnce>(store()->clone(timeout));
    }

   private:
    bool was_late_ = false;
  };
  const auto store = std::make_shared<HashStore>();
  test::Gate complaints;
  Rank first(*store, 0, {}, complaints);
  first.calls(CollectiveKind::kAllReduce, 8);
  REQUIRE(is_published(*store, 1));
  Rank second(LateOnce(store), 1, {}, complaints);
  second.calls(CollectiveKind::kAllReduce, 9);
  REQUIRE(complaints.wait_for(1));
  CHECK_THAT(second.complaint(), Catch::Contains("rank 1 called #1 all_reduce(float32[9]"));
}

TEST_CASE("sends and receives are not compared", "[call_check]") {
  HashStore store;
  test::Gate complaints;
  Rank first(store, 0, {}, complaints);
  Rank second(store, 1, {}, complaints);
  first.calls(CollectiveKind::kSend, 3);
  second.calls(CollectiveKind::kRecv, 4);
  first.calls(CollectiveKind::kAllReduce, 1);
  second.calls(CollectiveKind::kAllReduce, 1);
  CHECK(is_published(store, 1));
  CHECK(complaints.count() == 0);
}

TEST_CASE("the check ends after its last step", "[call_check]") {
  const std::uint64_t before =
      GENERATE(std::uint64_t{0}, std::uint64_t{5000});  // steps of a training that is resumed
  CAPTURE(before);
  HashStore store;
  test::Gate complaints;
  Rank rank(store, 0, {.steps = 2, .collectives = 100}, complaints);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    rank.steps(before + step);
    rank.calls(CollectiveKind::kAllReduce, 1);
  }
  REQUIRE(is_published(store, 2));
  // The check has seen step 3, or will see it when it looks next, even if its thread is late. After
  // more looks nothing is published.
  std::this_thread::sleep_for(15 * CallCheck::kPeriod);
  rank.calls(CollectiveKind::kAllReduce, 1);
  std::this_thread::sleep_for(3 * CallCheck::kPeriod);
  CHECK_FALSE(store.has("call/4"));
}

TEST_CASE("a model with 600 buckets is checked in all of the first steps", "[call_check]") {
  HashStore store;
  test::Gate complaints;
  Rank first(store, 0, {}, complaints);
  Rank second(store, 1, {}, complaints);
  const std::uint64_t buckets = 600;
  for (std::uint64_t step = 1; step <= 8; ++step) {
    for (Rank* rank : {&first, &second}) {
      rank->steps(step);
      const bool differs = step == 8 && rank == &second;
      for (std::uint64_t bucket = 1; bucket <= buckets; ++bucket) {
        rank->calls(CollectiveKind::kAllReduce, differs && bucket == 5 ? 7 : 8);
      }
    }
    REQUIRE(is_published(store, step < 8 ? step * buckets : 7 * buckets + 5));
  }
  REQUIRE(complaints.wait_for(1));
  const std::string complaint = first.complaint() + second.complaint();
  CHECK_THAT(complaint, Catch::Contains("rank 0 called #4205 all_reduce(float32[8], sum)") &&
                            Catch::Contains("rank 1 called #4205 all_reduce(float32[7], sum)"));
}

TEST_CASE("the check ends after a number of calls while there are no steps", "[call_check]") {
  HashStore store;
  test::Gate complaints;
  Rank rank(store, 0, {.steps = 2, .collectives = 3}, complaints);
  for (int i = 0; i < 3; ++i) rank.calls(CollectiveKind::kAllReduce, 1);
  REQUIRE(is_published(store, 3));
  std::this_thread::sleep_for(3 * CallCheck::kPeriod);
  rank.calls(CollectiveKind::kAllReduce, 1);
  std::this_thread::sleep_for(3 * CallCheck::kPeriod);
  CHECK_FALSE(store.has("call/4"));
}

TEST_CASE("DDP_CHECK=1 makes the check endless", "[call_check]") {
  const auto limits = [](const std::optional<std::string>& value) {
    const test::ScopedVariable variable("DDP_CHECK", value);
    return CallCheckLimits::from_environment();
  };
  CHECK(limits(std::nullopt).steps == 10);
  CHECK(limits("0").steps == 10);
  CHECK(limits("1").steps == std::numeric_limits<std::uint64_t>::max());
  CHECK(limits("1").collectives == std::numeric_limits<std::uint64_t>::max());
}
