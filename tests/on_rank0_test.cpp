// SPDX-License-Identifier: MIT
#include "ddp/collectives/on_rank0.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "support/groups.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;

namespace {

constexpr OnRank0Options kQuick = {.period = 20ms, .silence = 1s};

}  // namespace

TEST_CASE("on_rank0 runs on rank 0 alone, and the others return after it", "[on_rank0]") {
  for (const int world_size : {1, 2, 4}) {
    std::atomic<int> runs = 0;
    test::run_groups(Backend::kShm, world_size, [&](ProcessGroup& group) {
      for (int round = 1; round <= 3; ++round) {
        on_rank0(
            group, [&] { ++runs; }, kQuick);
        expect(runs >= round, "rank 0 to be done");
      }
    });
    CHECK(runs == 3);
  }
}

TEST_CASE("rank 0 may take longer than any timeout", "[on_rank0]") {
  constexpr Timeout kTimeout = 300ms;
  std::atomic<bool> done = false;
  test::run_groups(
      Backend::kShm, 3,
      [&](ProcessGroup& group) {
        const auto work = [&] {
          std::this_thread::sleep_for(5 * kTimeout);  // it has to take time
          done = true;
        };
        on_rank0(group, work, kQuick);
        expect(done, "rank 0 to be done");
        float value = 1;
        group.all_reduce({&value, 1, DType::kFloat32, kCpuDevice}).wait();
        expect(value == 3, "a group that works");
      },
      kTimeout);
}

TEST_CASE("an exception on rank 0 is thrown on all ranks", "[on_rank0]") {
  test::run_groups(Backend::kShm, 3, [](ProcessGroup& group) {
    const auto fails = [] { throw std::invalid_argument("no such file"); };
    bool is_own_type = false;
    const std::string text = error_of([&] {
      try {
        on_rank0(group, fails, kQuick);
      } catch (const std::invalid_argument&) {
        is_own_type = true;
        throw;
      } catch (const PeerError&) {
        expect(group.rank() != 0, "rank 0 to get its own exception");
        throw;
      }
    });
    expect(is_own_type == (group.rank() == 0), "the exception itself on rank 0");
    const std::string expected =
        group.rank() == 0 ? "no such file" : "[on_rank0] rank 0 failed: no such file";
    expect(text == expected, expected + ", not " + text);
  });
}

TEST_CASE("a rank 0 that does not come is said to be missing", "[on_rank0]") {
  std::atomic<int> complaints = 0;
  test::run_groups(
      Backend::kShm, 2,
      [&](ProcessGroup& group) {
        if (group.rank() == 0) {
          while (complaints == 0) std::this_thread::yield();
          return;
        }
        const std::string text = error_of([&] {
          on_rank0(
              group, [] {}, kQuick);
        });
        ++complaints;
        expect(text == "[on_rank0] rank 0 has not come in 300 ms", text);
      },
      300ms);
}

// The other ranks wait for fn to end, and fn would wait for them.
TEST_CASE("whatever of the group fn uses is an error at once, and the group works afterwards",
          "[on_rank0]") {
  double value = 1;
  const std::vector<std::pair<std::string, std::function<void(ProcessGroup&)>>> uses = {
      {"all_reduce",
       [&](ProcessGroup& group) { group.all_reduce(buffer_of(std::span(&value, 1))).wait(); }},
      {"barrier",
       [](ProcessGroup& group) {
         auto batch = group.batch();
         (void)group.barrier();
         batch.end().wait();
       }},
      {"barrier", [](ProcessGroup& group) { (void)group.duplicate(); }},
      {"split", [](ProcessGroup& group) { (void)group.split(0, 0); }},
      {"on_rank0",
       [](ProcessGroup& group) {
         on_rank0(
             group, [] {}, kQuick);
       }},
  };
  for (const Backend backend : test::backends()) {
    for (const int world_size : {1, 2, 3}) {
      test::run_groups(backend, world_size, [&](ProcessGroup& group) {
        for (const auto& [name, use] : uses) {
          const std::string expected =
              "[on_rank0] " + name +
              " inside the function that the other ranks wait for, which "
              "they would never join: call it before or after, on all ranks";
          const std::string text = error_of([&] {
            on_rank0(
                group, [&] { use(group); }, kQuick);
          });
          expect(text == (group.rank() == 0 ? expected : "[on_rank0] rank 0 failed: " + expected),
                 text);
        }
        float sum = 1;
        group.all_reduce(buffer_of(std::span(&sum, 1))).wait();
        expect(sum == static_cast<float>(group.world_size()), "a group that works");
        on_rank0(
            group, [] {}, kQuick);
      });
    }
  }
}
