// SPDX-License-Identifier: MIT
//
// Tests every collective on every backend that runs without a GPU, for world sizes 1 to 4, sizes 0,
// 1, a prime and large, in every dtype. The operands are small integers, whose sums are exact. Also
// tests the order of operations, batches, groups made of groups, and collectives on host values.
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/group_scopes.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/host_collectives.h"
#include "support/collective_checks.h"
#include "support/groups.h"
#include "support/sanitizers.h"

using namespace ddp;
using test::check_exchanges;
using test::check_reductions;
using test::check_ring;
using test::error_of;
using test::expect;
using test::run_groups;

namespace {

constexpr std::size_t kPrime = 10007;
constexpr std::size_t kLarge = 200003;  // several chunks of the shm backend

template <class T>
concept CanBeBroadcast = requires(ProcessGroup& group, T value) {
  broadcast_on_host(group, value, 0);
};
template <class T>
concept CanBeGathered = requires(ProcessGroup& group, std::span<T> own) {
  all_gather_on_host(group, own);
};

// Averages whose divisor is the sum that an all_reduce of `divisor_count` elements, which nobody
// has waited for, puts into the last of them. That is 0 or a power of two.
void check_divided(ProcessGroup& group, DType dtype, std::size_t count, double divisor,
                   std::size_t divisor_count) {
  const auto ranks = static_cast<std::size_t>(group.world_size());
  const auto rank = static_cast<std::size_t>(group.rank());
  std::vector<double> divisors(divisor_count, rank == 0 ? divisor + 1 - double(ranks) : 1);
  test::Values all = test::filled(group, dtype, count);
  test::Values rooted = test::filled(group, dtype, count);
  test::Values input = test::filled(group, dtype, count * ranks);
  test::Values share(dtype, count);
  static_cast<void>(group.all_reduce(buffer_of(divisors)));
  {
    const ScopedDivisor divided(group, &divisors.back());
    static_cast<void>(group.all_reduce(all.buffer(), ReduceOp::kAverage));
    static_cast<void>(group.reduce(rooted.buffer(), 0, ReduceOp::kAverage));
    static_cast<void>(group.reduce_scatter(input.buffer(), share.buffer(), ReduceOp::kAverage));
  }
  test::Values plain = test::filled(group, dtype, count);
  group.all_reduce(plain.buffer(), ReduceOp::kAverage).wait();
  const auto sum = [&](std::size_t i) {
    return test::reduced(ReduceOp::kSum, group.world_size(), i);
  };
  const auto result = [&](std::size_t i) { return divisor == 0 ? 0 : sum(i) / divisor; };
  test::expect_all(all, "all_reduce", result);
  test::expect_all(rooted, "reduce", [&](std::size_t i) {
    return rank == 0 ? result(i) : test::element(group.rank(), i);
  });
  test::expect_all(share, "reduce_scatter",
                   [&](std::size_t i) { return result(rank * count + i); });
  test::expect_all(plain, "plain all_reduce", test::repeated([&](std::size_t i) {
                     return test::rounded(dtype, sum(i) / double(ranks));
                   }));
}

}  // namespace

TEST_CASE("every collective is exact in every dtype", "[collectives]") {
  for (const Backend backend : test::backends()) {
    for (const int world_size : {1, 2, 3, 4}) {
      INFO(to_string(backend) << ", " << world_size << " ranks");
      run_groups(backend, world_size, [](ProcessGroup& group) {
        for (const DType dtype : kAllDTypes) {
          for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{97}}) {
            test::check_all(group, dtype, count);
          }
        }
        group.barrier().wait();
      });
    }
  }
}

TEST_CASE("large operands are exact", "[collectives]") {
  // A sanitizer sees the same accesses with every type and more than two ranks, and would take
  // minutes for all.
  const auto worlds = test::kIsSanitized ? std::vector{1, 3} : std::vector{1, 2, 3, 4};
  const auto dtypes = test::kIsSanitized
                          ? std::vector{DType::kFloat32}
                          : std::vector(std::begin(kAllDTypes), std::end(kAllDTypes));
  for (const Backend backend : test::backends()) {
    for (const int world_size : worlds) {
      INFO(to_string(backend) << ", " << world_size << " ranks");
      run_groups(backend, world_size, [&](ProcessGroup& group) {
        for (const DType dtype : dtypes) {
          for (const std::size_t count : {kPrime, kLarge}) {
            check_reductions(group, dtype, count, ReduceOp::kSum);
            check_exchanges(group, dtype, count);
            check_ring(group, dtype, count);
          }
        }
      });
    }
  }
}

// shm sums operands that it does not copy as a whole chunk by chunk.
TEST_CASE("operands of several MiB are summed exactly", "[collectives]") {
  for (const Backend backend : test::backends()) {
    for (const int world_size : {2, 3, 4}) {
      INFO(to_string(backend) << ", " << world_size << " ranks");
      run_groups(backend, world_size, [](ProcessGroup& group) {
        check_reductions(group, DType::kFloat32, 1'200'007, ReduceOp::kSum);
      });
    }
  }
}

TEST_CASE("an average divides by what an operation before it has computed", "[collectives]") {
  // All of them would take minutes under a sanitizer.
  const auto worlds = test::kIsSanitized ? std::vector{3} : std::vector{2, 3, 4};
  const auto dtypes = test::kIsSanitized ? std::vector{DType::kBFloat16}
                                         : std::vector{DType::kFloat32, DType::kBFloat16};
  for (const int world_size : worlds) {
    test::run_on_all_backends(world_size, [&](ProcessGroup& group) {
      for (const DType dtype : dtypes) {
        for (const std::size_t count : {std::size_t{1}, std::size_t{300}, kPrime, kLarge}) {
          check_divided(group, dtype, count, 16, 1);
          check_divided(group, dtype, count, 0.25, 5000);
        }
        check_divided(group, dtype, kPrime, 0, 5000);
      }
    });
  }
}

TEST_CASE("operations run in order without being waited for", "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 3, [](ProcessGroup& group) {
      std::vector<double> values(1000, 1.0);
      Work last;
      for (int i = 0; i < 5; ++i) last = group.all_reduce(buffer_of(values));
      last.wait();
      for (const double value : values) expect(value == 243, "3^5 everywhere");
    });
  }
}

TEST_CASE("more operations than the queue holds only make the caller wait", "[collectives]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    std::vector<float> values(5000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
    Work last;
    for (std::size_t i = 0; i < values.size(); ++i) {
      last = group.all_reduce(buffer_of(values).slice(i, 1));
    }
    last.wait();
    for (std::size_t i = 0; i < values.size(); ++i) {
      expect(values[i] == static_cast<float>(2 * (i + 1)), "each was summed once");
    }
  });
}

TEST_CASE("a duplicate does not queue behind its original", "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 2, [](ProcessGroup& group) {
      const auto other = group.duplicate();
      std::vector<float> a(100, 1.0F);
      std::vector<float> b(100, 2.0F);
      // On a single group, opposite orders would deadlock.
      const bool first = group.rank() == 0;
      const Work one = first ? group.all_reduce(buffer_of(a)) : other->all_reduce(buffer_of(b));
      const Work two = first ? other->all_reduce(buffer_of(b)) : group.all_reduce(buffer_of(a));
      one.wait();
      two.wait();
      expect(a[0] == 2.0F && b[0] == 4.0F, "both sums");
    });
  }
}

TEST_CASE("split makes one group per color, with ranks ordered by key", "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 4, [](ProcessGroup& group) {
      const int color = group.rank() == 3 ? -1 : group.rank() % 2;
      const auto part = group.split(color, -group.rank());
      if (group.rank() == 3) {
        expect(part == nullptr, "no group for a negative color");
        return;
      }
      expect(part->world_size() == (color == 0 ? 2 : 1), "two even ranks, one odd");
      expect(part->rank() == (group.rank() == 0 ? 1 : 0), "the larger rank has the smaller key");
      expect(part->job_rank(part->rank()) == group.rank(), "its rank in the job");
      expect(part->job_rank(0) == (color == 0 ? 2 : 1), "that of another one");
      expect(!error_of([&] { (void)part->job_rank(2); }).empty(), "there is no such rank");
      std::int64_t sum = group.rank();
      part->all_reduce(buffer_of(std::span(&sum, 1))).wait();
      expect(sum == (color == 0 ? 2 : 1), "the sum over the part");
    });
  }
}

TEST_CASE("waiting inside a batch is an error, not a hang", "[collectives]") {
  const auto check = [](ProcessGroup& group) {
    std::vector<float> own(8, 1);
    std::vector<float> all(8 * static_cast<std::size_t>(group.world_size()));
    auto batch = group.batch();
    const Work work = group.all_gather(buffer_of(own), buffer_of(all));
    expect(error_of([&] { work.wait(); }).find("batch ends") != std::string::npos, "logic_error");
    expect(all[0] == 0, "nothing has started");
    (void)batch.end();
    work.wait();
    expect(all == std::vector<float>(all.size(), 1), "what is waited for after the end");
  };
  run_groups(Backend::kAuto, 1, check);
  for (const Backend backend : test::backends()) run_groups(backend, 2, check);
  CHECK_FALSE(error_of([] { Work().wait(); }).empty());
}

TEST_CASE("a batch that an exception ends is discarded, and the group still works",
          "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 2, [](ProcessGroup& group) {
      std::vector<float> discarded(8, 1);
      const auto interrupted = [&] {
        auto batch = group.batch();
        (void)group.all_reduce(buffer_of(discarded));
        (void)group.send(buffer_of(discarded), 7);  // no such rank
        batch.end().wait();
      };
      expect(!error_of(interrupted).empty(), "refused");
      std::vector<float> values(8, 1);
      group.all_reduce(buffer_of(values)).wait();
      check_ring(group, DType::kFloat32, 100);
      expect(values == std::vector<float>(8, 2), "the operation after the batch");
      expect(discarded == std::vector<float>(8, 1), "the batch did not start");
      expect(!group.recorder().oldest_pending(), "nothing is pending");
    });
  }
}

TEST_CASE("batches cannot be nested and can end only once", "[collectives]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    auto batch = group.batch();
    expect(!error_of([&] { auto inner = group.batch(); }).empty(), "no batch in a batch");
    batch.end().wait();
    expect(!error_of([&] { batch.end().wait(); }).empty(), "no second end");
  });
}

// The queue has room for 1024 operations.
TEST_CASE("submitting more than the queue holds waits for room, even in a batch", "[collectives]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    std::vector<float> values(1700, 1);
    const auto submit = [&](std::size_t i) {
      return group.all_reduce(buffer_of(std::span(&values[i], 1)));
    };
    for (std::size_t i = 0; i < 700; ++i) (void)submit(i);
    auto batch = group.batch();
    for (std::size_t i = 700; i < values.size(); ++i) (void)submit(i);
    batch.end().wait();
    expect(values == std::vector<float>(values.size(), 2), "every sum");
    for (std::size_t i = 0; i < values.size(); ++i) (void)submit(i);
    group.barrier().wait();
    expect(values == std::vector<float>(values.size(), 4), "every sum of sums");
  });
}

TEST_CASE("host memory is broadcast in place", "[broadcast]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 3, [](ProcessGroup& group) {
      std::vector<std::uint8_t> bytes(57, static_cast<std::uint8_t>(group.rank()));
      broadcast_on_host(group, buffer_of(bytes), 1);
      expect(bytes == std::vector<std::uint8_t>(57, 1), "the root's bytes everywhere");
      std::int64_t number = group.rank();
      broadcast_on_host(group, number, 1);
      expect(number == 1, "and the root's number");
      const NamedBuffer tensors[] = {{"bytes", {57}, buffer_of(bytes)}, {"none", {0}, {}}};
      bytes[3] = static_cast<std::uint8_t>(group.rank());
      broadcast_tensors(group, tensors, 2);
      expect(bytes[3] == 2 && bytes[4] == 1, "and the root's tensors");
    });
  }
}

TEST_CASE("values in host memory are gathered by rank", "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 3, [](ProcessGroup& group) {
      const std::int32_t own[] = {group.rank(), 10 * group.rank()};
      expect(all_gather_on_host(group, own) == std::vector{0, 0, 1, 10, 2, 20}, "two of each rank");
      const std::vector<double> halves = all_gather_on_host(group, std::array{group.rank() / 2.0});
      expect(halves == std::vector{0.0, 0.5, 1.0}, "one of each rank");
    });
  }
}

TEST_CASE("only values for whose type a DType stands are taken", "[collectives]") {
  STATIC_REQUIRE((CanBeBroadcast<int> && CanBeBroadcast<BFloat16>));
  STATIC_REQUIRE((CanBeGathered<double> && CanBeGathered<const std::uint8_t>));
  STATIC_REQUIRE_FALSE((CanBeBroadcast<std::size_t> || CanBeBroadcast<bool>));
  STATIC_REQUIRE_FALSE((CanBeGathered<std::size_t> || CanBeGathered<char>));
}

TEST_CASE("texts of any length are gathered and broadcast", "[collectives]") {
  const auto text_of = [](int rank) {
    return std::string(std::size_t{1013} * static_cast<std::size_t>(rank), '\0') + "x";
  };
  for (const Backend backend : test::backends()) {
    run_groups(backend, 3, [&](ProcessGroup& group) {
      const std::vector<std::string> all = all_gather_text(group, text_of(group.rank()));
      expect(all == std::vector{text_of(0), text_of(1), text_of(2)}, "everybody's text");
      const std::string last = group.rank() == 2 ? "last" : "";
      expect(all_gather_text(group, last) == std::vector<std::string>{"", "", "last"}, "one text");
      expect(all_gather_text(group, "") == std::vector<std::string>(3), "no text");
      expect(broadcast_text(group, text_of(group.rank()), 1) == text_of(1), "the root's text");
      expect(broadcast_text(group, last, 0).empty(), "the root's, which has none");
    });
  }
}
