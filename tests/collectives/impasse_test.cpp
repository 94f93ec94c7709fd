// SPDX-License-Identifier: MIT
//
// Two ranks that both live and reach the store, while the network between them does not deliver.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddp/base/field_lines.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/hang/hang_watch.h"
#include "ddp/collectives/hierarchical/hierarchical_process_group.h"
#include "ddp/store/hash_store.h"
#include "support/becomes_true.h"
#include "support/forwarding_store.h"
#include "support/gate.h"
#include "support/groups.h"
#include "support/relay.h"
#include "support/run_ranks.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::expect;

namespace {

// Its user finds a relay's address under this key, and behind it the rank that has written there.
class Detour final : public test::ForwardingStore {
 public:
  Detour(std::shared_ptr<Store> store, std::string key, test::Relay& relay)
      : ForwardingStore(std::move(store)), key_(std::move(key)), relay_(relay) {}

  std::string get(std::string_view key, Timeout timeout) override {
    const std::string found = ForwardingStore::get(key, timeout);
    if (key != key_) return found;
    FieldReader fields(found);
    Endpoint rank;
    std::uint64_t secret = 0;
    fields >> rank.host >> rank.port >> secret;
    relay_.lead_to(rank);
    FieldWriter detour;
    detour << relay_.endpoint().host << relay_.endpoint().port << secret;
    return detour.text();
  }
  std::shared_ptr<Store> clone(Timeout timeout) const override {
    return std::make_shared<Detour>(store()->clone(timeout), key_, relay_);
  }

 private:
  std::string key_;
  test::Relay& relay_;
};

struct Case {
  std::vector<int> hosts;  // by rank
  int caller;
  int called;
  std::string address_key;  // of the called rank
  std::size_t count;        // of elements
};

Buffer buffer_of(std::vector<float>& values) {
  return {values.data(), values.size(), DType::kFloat32, kCpuDevice};
}

}  // namespace

TEST_CASE("two ranks between which nothing passes are named, and the job goes on when it does",
          "[hang]") {
  const auto [hosts, caller, called, address_key, count] =
      GENERATE(Case{{0, 1, 2}, 2, 1, "tcp/1", 1}, Case{{0, 1, 2}, 2, 1, "tcp/1", 1'000'000},
               Case{{0, 1, 0}, 1, 0, "leaders/tcp/0", 1});
  const auto store = std::make_shared<HashStore>();
  test::Relay relay({"127.0.0.1", 0});
  test::Gate made, held;
  const HangWatchOptions impatient{.period = 20ms, .patience = 200ms, .window = 1h};
  test::run_ranks(3, [&](int rank) {
    std::shared_ptr<Store> own_store = store;
    if (rank == caller) own_store = std::make_shared<Detour>(store, address_key, relay);
    const auto watch = std::make_shared<HangWatch>(store, identify_self(rank, kCpuDevice),
                                                   impatient, [](std::string_view) {});
    const auto group = make_hierarchical_process_group(
        {.store = own_store, .rank = rank, .world_size = 3, .job = {.hang_watch = watch}}, hosts,
        "127.0.0.1");
    made.raise();
    expect(made.wait_for(3), "all ranks have made the group");
    if (rank == 0) {
      relay.hold();
      held.raise();
    }
    expect(held.wait_for(1), "the relay holds");
    // A rank that is not concerned may do the first.
    std::vector<float> values[2];
    Work sums[2];
    for (int i = 0; i < 2; ++i) {
      values[i].assign(count, 1);
      sums[i] = group->all_reduce(buffer_of(values[i]), ReduceOp::kSum);
    }
    const auto first = "rank " + std::to_string(std::min(caller, called)) + " (";
    const auto second = " and rank " + std::to_string(std::max(caller, called)) + " (";
    const bool is_known = test::becomes_true([&] {
      const std::string diagnosis = group->recorder().hang().diagnosis();
      return diagnosis.starts_with(first) && diagnosis.find(second) != std::string::npos &&
             diagnosis.find("wait for each other's data in all_reduce #1") != std::string::npos;
    });
    expect(is_known, "rank " + std::to_string(rank) +
                         " knows who waits, not: " + group->recorder().hang().diagnosis());
    made.raise();
    expect(made.wait_for(6), "all ranks know it");
    if (rank == 0) relay.pass_again();
    for (int i = 0; i < 2; ++i) {
      sums[i].wait();
      expect(values[i] == std::vector<float>(count, 3), "the sum is right");
    }
  });
}

TEST_CASE("whom a collective waits for is told, but not whom a recv waits for", "[hang]") {
  test::run_groups(
      Backend::kTcp, 2,
      [](ProcessGroup& group) {
        std::vector<float> value(1);
        const int peer = 1 - group.rank();
        // Each waits for the other, and neither sends.
        expect(!test::error_of([&] { group.recv(buffer_of(value), peer).wait(); }).empty(),
               "the recv times out");
        expect(group.recorder().hang().awaited().empty(), "a recv's peer is not told");
      },
      2s);
  test::run_groups(
      Backend::kTcp, 2,
      [](ProcessGroup& group) {
        if (group.rank() == 1) return void(group.store().wait_for("done", 60s));
        const std::string error = test::error_of([&] { group.barrier().wait(); });
        group.store().set("done", "");
        expect(!error.empty() && group.recorder().hang().awaited() == std::vector{1},
               "the barrier waits for rank 1, not: " + error);
      },
      2s);
}
