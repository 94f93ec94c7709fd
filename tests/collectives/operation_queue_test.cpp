// SPDX-License-Identifier: MIT
#include "ddp/collectives/queue/operation_queue.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "ddp/base/error.h"

using namespace ddp;
using namespace std::chrono_literals;

namespace {

std::uint64_t submit_barrier(OperationQueue& queue) {
  const Collective barrier{CollectiveKind::kBarrier, {}, {}};
  return queue.submit({&barrier, 1});
}

}  // namespace

TEST_CASE("a queue that is destroyed first runs what was submitted", "[collectives]") {
  int executed = 0;
  {
    OperationQueue queue("test", "[test]", std::make_shared<FlightRecorder>(),
                         [&](std::span<const Collective> batch) {
                           executed += static_cast<int>(batch.size());
                           return std::nullopt;
                         });
    for (int i = 0; i < 10; ++i) submit_barrier(queue);
  }
  CHECK(executed == 10);
}

TEST_CASE("all later waits throw the first exception of a queue", "[collectives]") {
  OperationQueue queue("test", "[test]", std::make_shared<FlightRecorder>(),
                       [&](std::span<const Collective>) -> std::optional<Interval> {
                         throw PeerError("rank 1 died");
                       });
  const std::uint64_t first = submit_barrier(queue);
  CHECK_THROWS_WITH(queue.wait(first, 10s), "rank 1 died");
  CHECK_THROWS_AS(queue.wait(first, 10s), PeerError);
  CHECK_THROWS_AS(submit_barrier(queue), PeerError);
}

TEST_CASE("an operation that cannot be posted runs all the same", "[collectives]") {
  std::atomic<std::size_t> executed = 0;
  OperationQueue queue(
      "test", "[test]", std::make_shared<FlightRecorder>(),
      [&](std::span<const Collective> batch) {
        executed += batch.size();
        return std::nullopt;
      },
      {.post = [](const Collective&) -> OperationQueue::Posting { throw std::bad_alloc(); },
       .finish = [](const Collective&) { return false; }});
  std::uint64_t last = 0;
  REQUIRE_NOTHROW(last = submit_barrier(queue));
  queue.wait(last, 10s);
  CHECK(executed == 1);
}

TEST_CASE("a queue survives what a listener throws", "[collectives]") {
  const auto fail_to_report = [](const FlightRecorder&, const std::exception_ptr&) {
    throw std::bad_alloc();
  };
  OperationQueue queue(
      "test", "[test]", std::make_shared<FlightRecorder>(),
      [&](std::span<const Collective>) -> std::optional<Interval> {
        throw PeerError("rank 1 died");
      },
      std::make_shared<BreakReport>(fail_to_report));
  const std::uint64_t first = submit_barrier(queue);
  CHECK_THROWS_WITH(queue.wait(first, 10s), "rank 1 died");
}

TEST_CASE("room for a batch is made by running what was left to a waiting thread",
          "[collectives]") {
  std::atomic<std::size_t> executed = 0;
  OperationQueue queue("test", "[test]", std::make_shared<FlightRecorder>(),
                       [&](std::span<const Collective> batch) {
                         executed += batch.size();
                         return std::nullopt;
                       },
                       {.post = [](const Collective&) { return OperationQueue::Posting::kLittle; },
                        .finish = [](const Collective&) { return false; }});
  submit_barrier(queue);
  const std::vector<Collective> batch(OperationQueue::kCapacity,
                                      Collective{CollectiveKind::kBarrier, {}, {}});
  auto last = std::async(std::launch::async, [&] { return queue.submit(batch); });
  if (last.wait_for(10s) != std::future_status::ready) {
    queue.fail(std::make_exception_ptr(TimeoutError("no room was made")));
  }
  queue.wait(last.get(), 10s);
  CHECK(executed == 1 + batch.size());
}

TEST_CASE("memory is not released before the average that divides by it has run", "[collectives]") {
  std::promise<void> may_end;
  OperationQueue queue("test", "[test]", std::make_shared<FlightRecorder>(),
                       [&](std::span<const Collective>) {
                         may_end.get_future().wait_for(30s);
                         return std::nullopt;
                       });
  double divisor = 2;
  std::vector<float> operand(4);
  Collective average{CollectiveKind::kAllReduce, buffer_of(operand), buffer_of(operand),
                     ReduceOp::kAverage};
  average.context.divisor = &divisor;
  queue.submit({&average, 1});
  CHECK_FALSE(queue.wait_released({&divisor, 1, DType::kFloat64, kCpuDevice}, 10ms));
  may_end.set_value();
  CHECK(queue.wait_released({&divisor, 1, DType::kFloat64, kCpuDevice}, 10s));
}

TEST_CASE("a broken queue that is destroyed does not wait for a hanging operation",
          "[collectives]") {
  std::promise<void> begun;
  std::promise<void> may_end;
  OperationQueue queue("test", "[test]", std::make_shared<FlightRecorder>(),
                       [&](std::span<const Collective>) {
                         begun.set_value();
                         may_end.get_future().wait_for(30s);
                         return std::nullopt;
                       });
  submit_barrier(queue);
  REQUIRE(begun.get_future().wait_for(10s) == std::future_status::ready);
  queue.fail(std::make_exception_ptr(PeerError("rank 1 died")));
  const Clock::time_point begin = Clock::now();
  bool was_interrupted = false;
  queue.stop([&] {
    was_interrupted = true;
    CHECK(Clock::now() - begin < OperationQueue::kLeaveTimeout / 2);
    may_end.set_value();
  });
  CHECK(was_interrupted);
}
