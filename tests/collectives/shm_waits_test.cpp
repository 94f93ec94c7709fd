// SPDX-License-Identifier: MIT
//
// How a rank of the shm backend waits, by the CPUs that it has and by what its caller does: whether
// it polls, sleeps, or runs its operations itself.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/peers/cpu_sharing.h"
#include "ddp/collectives/queue/caller_load.h"
#include "ddp/collectives/queue/operation_queue.h"
#include "ddp/collectives/queue/spin_budget.h"

using namespace ddp;
using namespace std::chrono_literals;

namespace {

// The CPU share of each rank if these are the ranks' CPUs.
std::vector<double> cpu_shares(const std::vector<std::vector<int>>& cpus,
                               std::optional<double> quota = {}) {
  std::vector<CpuSet> allowed;
  for (const std::vector<int>& of_rank : cpus) allowed.push_back(cpu_set_of(of_rank));
  std::vector<double> shares;
  for (std::size_t rank = 0; rank < cpus.size(); ++rank) {
    shares.push_back(cpus_per_rank(allowed, rank, quota));
  }
  return shares;
}

std::uint64_t submit_barrier(OperationQueue& queue) {
  const Collective barrier;
  return queue.submit({&barrier, 1});
}

// Submits ten operations that the other ranks can complete without this one, with `work` after
// each. Returns how many of them the queue's thread ran.
int count_run_by_thread(double cpus_per_rank, const std::function<void()>& work) {
  const auto caller = std::this_thread::get_id();
  std::atomic<int> by_thread = 0;
  OperationQueue queue("test", "[test]", std::make_shared<FlightRecorder>(),
                       [&](std::span<const Collective>) {
                         by_thread += std::this_thread::get_id() != caller;
                         return std::nullopt;
                       },
                       {.post = [](const Collective&) { return OperationQueue::Posting::kUseful; },
                        .cpus_per_rank = cpus_per_rank});
  for (int i = 0; i < 20; ++i) {
    if (i == 10) by_thread = 0;  // the queue has learned by now
    const std::uint64_t operation = submit_barrier(queue);
    work();
    queue.wait(operation, Timeout::max());
  }
  return by_thread;
}

// Computes for this much CPU time, however busy the CPU is with other programs.
void compute(std::chrono::nanoseconds duration) {
  const auto busy = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto end = busy() + duration;
  while (busy() < end) continue;
}

}  // namespace

TEST_CASE("if CPUs are scarce, a caller that computes runs its operations itself", "[shm]") {
  const auto computes = [] { compute(3ms); };
  const auto waits = [] { std::this_thread::sleep_for(3ms); };
  CHECK(count_run_by_thread(0.1, computes) < 10);  // other programs may take most of its CPU
  CHECK(count_run_by_thread(1, waits) > 0);
  CHECK(count_run_by_thread(2, computes) > 0);
}

TEST_CASE("CPUs are counted for each of the ranks that share them", "[shm]") {
  using Shares = std::vector<double>;
  CHECK(cpu_shares({{0, 1}, {0, 1}}) == Shares{1, 1});
  CHECK(cpu_shares({{0}, {1}}) == Shares{1, 1});  // as ddp-launch --bind core leaves it
  CHECK(cpu_shares({{0}, {0}}) == Shares{0.5, 0.5});
  CHECK(cpu_shares({{0, 1}, {1, 2}, {1}, {5, 6, 7}}) == Shares{1, 1, 1, 3});
  CHECK(cpu_shares({{0}, {0}, {1, 2}}) == Shares{0.5, 0.5, 2});
  CHECK(cpu_shares({{}, {0}}) == Shares{0, 1});
  CHECK(cpu_shares({{5000, 5001, 5002}, {5000, 5001, 5002}}) == Shares{1.5, 1.5});
}

TEST_CASE("ranks share a CPU quota, too", "[shm]") {
  using Shares = std::vector<double>;
  const std::vector<std::vector<int>> own = {{0, 1}, {2, 3}};
  CHECK(cpu_shares(own, 3.0) == Shares{1.5, 1.5});
  CHECK(cpu_shares(own, 1.0) == Shares{0.5, 0.5});
  CHECK(cpu_shares(own, 100.0) == Shares{2, 2});
  CHECK(cpu_shares({{}, {0}}, 8.0) == Shares{0, 1});
}

TEST_CASE("after many futile waits, only a few waits still poll", "[shm]") {
  SpinBudget spins(100);
  for (unsigned wait = 0; wait < SpinBudget::kPatience; ++wait) {
    CHECK(spins.looks() == 100);
    spins.did_not_come();
  }
  CHECK(spins.looks() == 100);  // one more try
  spins.did_not_come();
  CHECK(spins.looks() == 0);
  spins.came(0);  // without a look: perhaps while this rank slept
  CHECK(spins.looks() == 0);
  for (unsigned wait = 1; wait < SpinBudget::kPatience; ++wait) spins.did_not_come();
  CHECK(spins.looks() == 100);
  spins.came(7);
  spins.did_not_come();
  CHECK(spins.looks() == 100);
}

TEST_CASE("of alternating waits, each kind polls again at times", "[shm]") {
  for (const unsigned first : {0U, 1U}) {  // the offset of the waits that look
    SpinBudget spins(100);
    for (unsigned i = 0; i < SpinBudget::kPatience + first; ++i) spins.did_not_come();
    bool looked = false;
    for (unsigned i = 0; i < 4 * SpinBudget::kPatience && !looked; ++i) {
      looked = i % 2 == 0 && spins.looks() > 0;
      spins.did_not_come();
    }
    CHECK(looked);
  }
}

TEST_CASE("a caller finishes a posted operation itself if little of it is left", "[shm]") {
  bool is_ready = true;
  int finished = 0;
  int executed = 0;
  OperationQueue queue("test", "[test]", std::make_shared<FlightRecorder>(),
                       [&](std::span<const Collective>) {
                         ++executed;
                         return std::nullopt;
                       },
                       {.post = [](const Collective&) { return OperationQueue::Posting::kLittle; },
                        .finish = [&](const Collective&) { return is_ready && ++finished > 0; }});
  const std::uint64_t at_once = submit_barrier(queue);
  queue.wait(at_once, Timeout::max());
  CHECK(finished == 1);
  CHECK(executed == 0);
  const auto ran = queue.interval(at_once);
  REQUIRE(ran);
  CHECK(ran->begin <= ran->end);
  is_ready = false;
  queue.wait(submit_barrier(queue), Timeout::max());
  CHECK(executed == 1);
  is_ready = true;
  const std::uint64_t first = submit_barrier(queue);
  const std::uint64_t second = submit_barrier(queue);
  queue.wait(second, Timeout::max());  // in order
  CHECK(finished == 3);
  CHECK(queue.interval(first));
  const std::uint64_t broken = submit_barrier(queue);
  queue.fail(std::make_exception_ptr(PeerError("gone")));
  CHECK_THROWS_AS(queue.wait(broken, Timeout::max()), PeerError);
  CHECK(finished == 3);
}

TEST_CASE("a thread's load tells whether it computes or waits", "[shm]") {
  CallerLoad load;
  CHECK_FALSE(load.end());
  load.begin();
  std::this_thread::sleep_for(20ms);
  CHECK(load.end().value() < 0.5);
  CHECK_FALSE(load.end());
  double highest = 0;
  for (int attempt = 0; attempt < 10 && highest <= 0.05; ++attempt) {
    load.begin();
    compute(20ms);
    highest = std::max(highest, load.end().value());
  }
  CHECK(highest > 0.05);  // other programs may have taken the rest
}
