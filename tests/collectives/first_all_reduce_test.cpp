// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/first_all_reduce.h"

#include <catch2/catch.hpp>

#include <memory>
#include <optional>
#include <string>

#include "ddp/base/error.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/group_config.h"
#include "support/groups.h"

using namespace ddp;
using test::error_of;

namespace {

const HostLayout kOneHost({0, 0, 0});

enum class Fault { kNone, kWrongElement, kNothingComes };

// Rank 1 of three, whose group sums as if all ranks were there, except for the given fault.
class FaultyGroup final : public ProcessGroup {
 public:
  explicit FaultyGroup(Fault fault, Timeout timeout = kDefaultTimeout)
      : ProcessGroup({.store = nullptr, .rank = 1, .world_size = 3, .timeout = timeout}),
        fault_(fault) {}
  std::string_view backend() const override { return "faulty"; }
  Allocation do_allocate(std::size_t size_bytes) override { return allocate_host(size_bytes); }
  void check_on(std::span<const int>, const std::function<bool()>&) override {}

  std::string aborted_with;
  Timeout patience{};  // timeout of the all_reduce

 protected:
  void do_abort(std::string_view reason) override { aborted_with = reason; }
  std::uint64_t submit(std::span<const Collective> operations) override {
    const Collective& collective = operations.front();
    if (collective.kind == CollectiveKind::kAllReduce) {
      patience = collective.context.timeout;
      for (double& value : collective.output.as<double>()) value *= 3;  // rank 1's is the mean
      if (fault_ == Fault::kWrongElement) collective.output.as<double>()[1022] = 7.5;
    }
    return 1;
  }
  void wait(std::uint64_t, Stream) override {}
  void wait_host(std::uint64_t, Timeout) override {
    if (fault_ == Fault::kNothingComes) throw TimeoutError("nothing came");
  }
  void time_last(std::uint64_t) override {}
  std::optional<Interval> interval(std::uint64_t) override { return std::nullopt; }
  std::shared_ptr<ProcessGroup> make_child(GroupConfig) override { return nullptr; }

 private:
  Fault fault_;
};

}  // namespace

TEST_CASE("the test all_reduce succeeds with correct values", "[collectives]") {
  for (const int world_size : {1, 2, 3}) {
    test::run_groups(Backend::kShm, world_size,
                     [](ProcessGroup& group) { try_first_all_reduce(group, kOneHost); });
  }
  FaultyGroup sound(Fault::kNone);
  CHECK_NOTHROW(try_first_all_reduce(sound, kOneHost));
}

TEST_CASE("wrong values in the test all_reduce stop all ranks", "[collectives]") {
  FaultyGroup group(Fault::kWrongElement);
  const std::string error = error_of([&] { try_first_all_reduce(group, kOneHost); });
  CHECK_THAT(error,
             Catch::StartsWith("[init] rank 1: in a test all_reduce of 1 MiB, 1 of 131072 "
                               "elements are wrong, such as element 1022: 7.5 instead of 6") &&
                 Catch::Contains("NCCL_P2P_DISABLE=1"));
  CHECK(group.aborted_with == error);
  CHECK_THROWS_AS(try_first_all_reduce(group, kOneHost), CudaError);
}

TEST_CASE("a test all_reduce that times out says what may help", "[collectives]") {
  FaultyGroup group(Fault::kNothingComes);
  CHECK_THAT(error_of([&] { try_first_all_reduce(group, kOneHost); }),
             Catch::StartsWith("nothing came; this was the start's test all_reduce") &&
                 Catch::Contains("NCCL_P2P_DISABLE=1"));
  CHECK_THROWS_AS(try_first_all_reduce(group, kOneHost), TimeoutError);
}

TEST_CASE("a test all_reduce that fails between hosts does not blame PCIe", "[collectives]") {
  const auto says = [](const HostLayout& hosts, const char* cure) {
    FaultyGroup group(Fault::kNothingComes);
    const std::string error = error_of([&] { try_first_all_reduce(group, hosts); });
    return error.find(cure) != std::string::npos;
  };
  const HostLayout one_rank_each({0, 1, 2});
  CHECK(says(one_rank_each, "NCCL_SOCKET_IFNAME"));
  CHECK_FALSE(says(one_rank_each, "NCCL_P2P_DISABLE"));
  const HostLayout both({0, 0, 1});
  CHECK(says(both, "NCCL_SOCKET_IFNAME"));
  CHECK(says(both, "NCCL_P2P_DISABLE"));
  CHECK_FALSE(says(kOneHost, "NCCL_SOCKET_IFNAME"));
}

TEST_CASE("the test all_reduce has time to connect, whatever the group's timeout is",
          "[collectives]") {
  const auto [timeout, patience] = GENERATE(table<Timeout, Timeout>({
      {Timeout(3000), Timeout(10'000)},
      {Timeout(20'000), Timeout(20'000)},
      {Timeout(600'000), Timeout(60'000)},
  }));
  FaultyGroup group(Fault::kNone, timeout);
  try_first_all_reduce(group, kOneHost);
  CHECK(group.patience == patience);
}
