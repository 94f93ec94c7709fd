// SPDX-License-Identifier: MIT
//
// Ranks on several simulated hosts: each rank is a thread and is told which ranks are on which
// host. collectives_test.cpp tests every collective in every dtype, hierarchical_failures_test.cpp
// what goes wrong.
#include <catch2/catch.hpp>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/collectives/peers/host_layout.h"
#include "support/collective_checks.h"
#include "support/groups.h"
#include "support/hosts.h"
#include "support/sanitizers.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;
using test::kInterleaved;
using test::kPairs;
using test::run_on_hosts;

namespace {

// The sum of random bits, which are the same in each run.
std::vector<std::byte> sum_of_random(ProcessGroup& group, DType dtype, ReduceOp op) {
  std::vector<float> values(1009);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto rank = static_cast<std::uint64_t>(group.rank());
    values[i] = static_cast<float>(static_cast<double>((i * 7919 + rank * 104729) % 10007) / 977.0);
  }
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  const Buffer buffer{bytes.data(), values.size(), dtype, kCpuDevice};
  cpu::cast(buffer_of(values), buffer);
  group.all_reduce(buffer, op).wait();
  return bytes;
}

}  // namespace

TEST_CASE("hosts and their ranks are numbered by the lowest ranks", "[hosts]") {
  const HostLayout layout({7, 3, 7, 5, 3, 7});
  CHECK(layout.members == std::vector<std::vector<int>>{{0, 2, 5}, {1, 4}, {3}});
  CHECK(layout.leaders() == std::vector<int>{0, 1, 3});
  CHECK(layout.width() == 3);
  CHECK(layout.place(4).host == 1);
  CHECK(layout.place(4).local_rank == 1);
}

TEST_CASE("collectives work for any distribution of ranks on hosts and any root", "[hosts]") {
  const std::vector<std::vector<int>> layouts = {kPairs,       {0, 0, 0, 1}, {0, 1, 1, 1},
                                                 kInterleaved, {0, 1, 1, 2}, {1, 0, 2, 0, 1, 1}};
  for (const std::vector<int>& hosts : layouts) {
    run_on_hosts(hosts, [](ProcessGroup& group) {
      expect(group.backend() == "shm+tcp", "both ways to communicate");
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64}) {
        for (int root = 0; root < group.world_size(); ++root) {
          test::check_reductions(group, dtype, 101, ReduceOp::kSum, root);
          test::check_exchanges(group, dtype, 101, root);
        }
        test::check_all(group, dtype, 3);
      }
    });
  }
}

TEST_CASE("operands of several chunks cross between hosts", "[hosts]") {
  // Under a sanitizer both roots would take two minutes.
  const auto roots = test::kIsSanitized ? std::vector{2} : std::vector{0, 2};
  run_on_hosts({0, 1, 0}, [&](ProcessGroup& group) {
    for (const int root : roots) {
      test::check_reductions(group, DType::kFloat64, 1200007, ReduceOp::kAverage, root);
      test::check_exchanges(group, DType::kFloat64, 1200007, root);
    }
    test::check_ring(group, DType::kFloat64, 1200007);
    if (test::kIsSanitized) return;
    std::vector<double> values(4200007);
    const auto all_are = [&](double factor, double offset) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] != factor * static_cast<double>(i) + offset) return false;
      }
      return true;
    };
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
    group.all_reduce(buffer_of(values)).wait();
    expect(all_are(3, 0), "three times its place in each");
    for (double& value : values) value += group.rank();
    group.broadcast(buffer_of(values), 2).wait();
    expect(all_are(3, 2), "what rank 2 had");
  });
}

TEST_CASE("sums have the same bits on every rank and from run to run", "[hosts]") {
  const DType dtypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  for (const DType dtype : dtypes) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
      std::vector<std::vector<std::byte>> sums;
      for (int run = 0; run < 2; ++run) {
        std::vector<std::vector<std::byte>> of_ranks(4);
        run_on_hosts({0, 1, 0, 0}, [&](ProcessGroup& group) {
          of_ranks[static_cast<std::size_t>(group.rank())] = sum_of_random(group, dtype, op);
        });
        sums.insert(sums.end(), of_ranks.begin(), of_ranks.end());
      }
      for (const std::vector<std::byte>& sum : sums) CHECK(sum == sums[0]);
    }
  }
}

TEST_CASE("parts of a group choose their own backends", "[hosts]") {
  run_on_hosts(kInterleaved, [](ProcessGroup& group) {
    const int rank = group.rank();
    const auto backend_of = [&](int color) {
      const auto part = group.split(color, 0);
      double sum = rank;
      part->all_reduce(buffer_of(std::span(&sum, 1))).wait();
      return std::string(part->backend());
    };
    expect(backend_of(rank % 2) == "shm", "a host's ranks");
    expect(backend_of(rank / 2) == "tcp", "one rank of each host");
    expect(backend_of(rank == 3 ? 1 : 0) == (rank == 3 ? "self" : "shm+tcp"), "three of four");
    expect(group.duplicate()->backend() == "shm+tcp", "the same again");
    const auto swapped = group.split(0, -rank);
    test::check_all(*swapped, DType::kFloat32, 5);
  });
}

TEST_CASE("memory of the group is reduced in place and may be freed at any time", "[hosts]") {
  run_on_hosts(kPairs, [](ProcessGroup& group) {
    Allocation memory = group.allocate(1 << 20);
    const Buffer buffer{memory.data(), 1 << 18, DType::kFloat32, kCpuDevice};
    cpu::fill(buffer, 1);
    group.all_reduce(buffer).wait();
    expect(buffer.as<float>()[17] == 4, "four ones");
    (void)group.all_reduce(buffer);
    memory = Allocation();
  });
}

TEST_CASE("a group of several hosts can be destroyed at once", "[hosts]") {
  std::vector<float> values(1 << 20);
  CHECK(error_of([&] {
          run_on_hosts(kPairs, [&](ProcessGroup& group) {
            if (group.rank() == 1) (void)group.all_reduce(buffer_of(values));
          });
        }).empty());
}

TEST_CASE("a host can leave a group while another host does not answer", "[hosts]") {
  run_on_hosts(kPairs, [](ProcessGroup& group) {
    std::shared_ptr<ProcessGroup> other = group.duplicate();
    std::vector<float> own(1000), all(4000);
    if (group.rank() < 2) {
      (void)other->gather(buffer_of(own), buffer_of(all), 0);
      const Deadline promised = Deadline::after(5 * 2s);
      other.reset();
      expect(!promised.passed(), "in time");
    }
    group.barrier().wait();
  });
}
