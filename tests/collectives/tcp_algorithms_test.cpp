// SPDX-License-Identifier: MIT
//
// The sizes around which the algorithms over TCP change, and operands of many segments.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/time.h"
#include "ddp/collectives/group_scopes.h"
#include "ddp/collectives/tcp/tcp_process_group.h"
#include "support/becomes_true.h"
#include "support/groups.h"
#include "support/sanitizers.h"

using namespace ddp;
using test::expect;

namespace {

float value_of(std::size_t i, int rank) {
  return static_cast<float>(i % 1000 + 1000 * static_cast<std::size_t>(rank));
}

std::vector<float> values_of(std::size_t count, int rank) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(i, rank);
  return values;
}

std::vector<float> sums_of(std::size_t count, int ranks) {
  std::vector<float> sums(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (int rank = 0; rank < ranks; ++rank) sums[i] += value_of(i, rank);
  }
  return sums;
}

}  // namespace

TEST_CASE("collectives over TCP are exact at the limits of their algorithms", "[tcp]") {
  constexpr std::size_t kHead = 1024 / sizeof(float), kBlocks = 16384 / sizeof(float);
  constexpr std::size_t kSegment = (std::size_t{1} << 20) / sizeof(float);
  // Under a sanitizer the largest operands would take a minute.
  const auto worlds = test::kIsSanitized ? std::vector{3} : std::vector{2, 3, 4};
  for (const int ranks : worlds) {
    const std::size_t all = kSegment * static_cast<std::size_t>(ranks);
    test::run_groups(Backend::kTcp, ranks, [&](ProcessGroup& group) {
      for (const std::size_t count : {kHead, kHead + 1, kBlocks - 1, kBlocks, kBlocks + 1, kSegment,
                                      kSegment + 1, all, all + 1, 5 * all + 3}) {
        const std::string what = std::to_string(count) + " elements";
        std::vector<float> values = values_of(count, group.rank());
        group.all_reduce(buffer_of(values)).wait();
        expect(values == sums_of(count, ranks), "all_reduce of " + what);
        const int root = ranks - 1;
        values = values_of(count, group.rank());
        group.reduce(buffer_of(values), root).wait();
        expect(values ==
                   (group.rank() == root ? sums_of(count, ranks) : values_of(count, group.rank())),
               "reduce of " + what);
        values = values_of(count, group.rank());
        group.broadcast(buffer_of(values), root).wait();
        expect(values == values_of(count, root), "broadcast of " + what);
        const std::size_t share = count / static_cast<std::size_t>(ranks);
        std::vector<float> input = values_of(share * static_cast<std::size_t>(ranks), group.rank());
        std::vector<float> sum(share);
        group.reduce_scatter(buffer_of(input), buffer_of(sum)).wait();
        const std::vector<float> sums = sums_of(input.size(), ranks);
        const auto own = sums.begin() + group.rank() * static_cast<std::ptrdiff_t>(share);
        expect(std::equal(sum.begin(), sum.end(), own), "reduce_scatter of " + what);
      }
    });
  }
}

// A sender whose payload is not received yet cannot go on to what the other sender waits for.
TEST_CASE("a batch takes what it receives in the order in which it comes", "[tcp]") {
  test::run_groups(Backend::kTcp, 3, [](ProcessGroup& group) {
    const ScopedTimeout limit(group, std::chrono::seconds(20));
    std::vector<float> first(1 << 22, 1), second(1 << 22, 2);
    if (group.rank() == 0) {
      auto batch = group.batch();
      (void)group.recv(buffer_of(first), 1);
      (void)group.recv(buffer_of(second), 2);
      batch.end().wait();
      expect(first.back() == 20 && second.front() == 10, "each payload in its place");
    } else if (group.rank() == 1) {
      group.recv(buffer_of(first), 2).wait();
      group.send(buffer_of(first), 0).wait();
    } else {
      for (float& value : first) value = 10;
      for (float& value : second) value = 20;
      group.send(buffer_of(first), 0).wait();
      group.send(buffer_of(second), 1).wait();
    }
  });
}

TEST_CASE("PyTorch's name for a backend over TCP means ours", "[tcp]") {
  CHECK(parse_backend("gloo") == Backend::kTcp);
  CHECK(parse_backend("tcp") == Backend::kTcp);
  CHECK_THROWS_WITH(parse_backend("mpi"),
                    "unknown backend 'mpi' (known: auto, nccl, shm, tcp or gloo, "
                    "shm+tcp)");
}

// A wait may throw while the operation still runs.
TEST_CASE("what a group was doing is told once that operation has ended by an error", "[tcp]") {
  const auto store = std::make_shared<HashStore>();
  test::run_ranks(2, [&](int rank) {
    const auto group =
        make_tcp_process_group({.store = store, .rank = rank, .world_size = 2}, "127.0.0.1");
    std::vector<float> values(2);
    group->all_reduce(buffer_of(values)).wait();
    expect(!group->failed_in(), "no operation has failed");
    group->barrier().wait();
    if (rank == 1) return;  // and then leaves
    const ScopedTimeout timeout(*group, std::chrono::minutes(3));
    std::vector<float> others(5);
    test::error_of([&] { group->all_reduce(buffer_of(others)).wait(); });
    const auto has_ended = [&] { return group->failed_in().has_value(); };
    expect(test::becomes_true(has_ended), "the operation ends");
    const auto doing = group->failed_in();
    expect(doing->call.count == 5 && doing->timeout == std::chrono::minutes(3), "what it was");
    expect(doing->peer == 1, "whose data it waited for");
  });
}
