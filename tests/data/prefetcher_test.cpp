// SPDX-License-Identifier: MIT
#include "ddp/data/prefetcher.h"

#include <signal.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/becomes_true.h"
#include "support/gate.h"
#include "support/run_ranks.h"

namespace {

using Catch::Matchers::Contains;
using ddp::Prefetcher;
using ddp::test::error_of;
using ddp::test::Gate;

// Consumes the rest of the epoch.
void consume(Prefetcher& prefetcher, std::int64_t steps, std::int64_t from = 0) {
  for (std::int64_t step = from; step < steps; ++step) {
    prefetcher.wait(step);
    prefetcher.release(step);
  }
}

void throw_at(std::int64_t bad, std::int64_t step) {
  if (step == bad) throw std::runtime_error("sample " + std::to_string(step) + " is damaged");
}

}  // namespace

TEST_CASE("every task runs once before its wait returns, on any number of threads",
          "[data][prefetcher]") {
  for (const int num_threads : {0, 1, 2, 4}) {
    for (const std::int64_t window : {1, 2, 3, 8}) {
      CAPTURE(num_threads, window);
      std::array<std::atomic<int>, 50> runs{};
      Prefetcher prefetcher({.num_threads = num_threads, .window = window},
                            [&](std::int64_t step, const std::stop_token&) {
                              ++runs[static_cast<std::size_t>(step)];
                            });
      for (const std::int64_t steps : {0, 1, 50, 7}) {
        for (auto& count : runs) count = 0;
        prefetcher.start(steps);
        for (std::int64_t step = 0; step < steps; ++step) {
          prefetcher.wait(step);
          REQUIRE(runs[static_cast<std::size_t>(step)] == 1);
          prefetcher.release(step);
        }
        prefetcher.cancel();
        for (std::size_t step = 0; step < runs.size(); ++step) {
          REQUIRE(runs[step] == (static_cast<std::int64_t>(step) < steps ? 1 : 0));
        }
      }
    }
  }
}

TEST_CASE("tasks run ahead of the consumer up to the window and no further", "[data][prefetcher]") {
  for (const int num_threads : {1, 3}) {
    for (const std::int64_t window : {1, 2, 5}) {
      CAPTURE(num_threads, window);
      std::atomic<std::int64_t> released{0};
      std::atomic<bool> too_far{false};
      Gate ran;
      Prefetcher prefetcher({.num_threads = num_threads, .window = window},
                            [&](std::int64_t step, const std::stop_token&) {
                              if (step >= released + window) too_far = true;
                              ran.raise();
                            });
      prefetcher.start(40);
      for (std::int64_t step = 0; step < 40; ++step) {
        // The batches come although they were not requested.
        REQUIRE(ran.wait_for(static_cast<int>(std::min<std::int64_t>(step + window, 40))));
        prefetcher.wait(step);
        ++released;
        prefetcher.release(step);
      }
      CHECK_FALSE(too_far);
    }
  }
}

TEST_CASE("as many tasks run at the same time as there are threads", "[data][prefetcher]") {
  Gate inside;
  std::atomic<bool> alone{false};
  Prefetcher prefetcher({.num_threads = 3, .window = 4}, [&](std::int64_t, const std::stop_token&) {
    inside.raise();
    if (!inside.wait_for(3)) alone = true;  // each of three tasks waits for the other two
  });
  prefetcher.start(3);
  consume(prefetcher, 3);
  CHECK_FALSE(alone);
}

TEST_CASE("the error of a task is thrown by each wait for it, until the next start",
          "[data][prefetcher]") {
  for (const int num_threads : {0, 1, 4}) {
    CAPTURE(num_threads);
    std::int64_t bad = 3;
    Prefetcher prefetcher({.num_threads = num_threads, .window = 4},
                          [&](std::int64_t step, const std::stop_token&) { throw_at(bad, step); });
    prefetcher.start(6);
    consume(prefetcher, 3);
    for (int again = 0; again < 2; ++again) {
      CHECK(error_of([&] { prefetcher.wait(3); }) == "sample 3 is damaged");
    }
    prefetcher.cancel();
    bad = -1;
    prefetcher.start(6);
    CHECK_NOTHROW(consume(prefetcher, 6));
  }
}

TEST_CASE("a start inside an epoch discards that epoch, whatever runs or has failed",
          "[data][prefetcher]") {
  for (const int num_threads : {0, 1, 2, 4}) {
    CAPTURE(num_threads);
    std::atomic<int> epoch{0};
    std::atomic<int> last{-1};
    Prefetcher prefetcher({.num_threads = num_threads, .window = 3},
                          [&](std::int64_t step, const std::stop_token&) {
                            last = epoch.load();
                            throw_at(4, step);
                          });
    for (int round = 0; round < 200; ++round) {
      prefetcher.cancel();
      epoch = round;
      prefetcher.start(8);
      for (std::int64_t step = 0; step < round % 4; ++step) {
        prefetcher.wait(step);
        REQUIRE(last == round);
        prefetcher.release(step);
      }
    }
  }
}

TEST_CASE("cancel and the destructor wait for running tasks and begin no others",
          "[data][prefetcher]") {
  Gate begun;
  std::atomic<int> ended{0};
  {
    Prefetcher prefetcher(
        {.num_threads = 2, .window = 1000}, [&](std::int64_t, const std::stop_token&) {
          begun.raise();
          std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a slow disk
          ++ended;
        });
    prefetcher.start(2000);
    REQUIRE(begun.wait_for(2));
    prefetcher.cancel();
    CHECK(ended == begun.count());
    CHECK(ended < 1000);
    prefetcher.start(2000);
    REQUIRE(begun.wait_for(ended + 2));
  }
  CHECK(ended == begun.count());
  CHECK(ended < 1000);
}

TEST_CASE("a running task learns that it is cancelled", "[data][prefetcher]") {
  Gate begun;
  std::atomic<int> ended{0};
  {
    Prefetcher prefetcher({.num_threads = 2, .window = 2},
                          [&](std::int64_t, const std::stop_token& cancelled) {
                            begun.raise();
                            if (ddp::test::becomes_true([&] { return cancelled.stop_requested(); }))
                              ++ended;
                          });
    prefetcher.start(2);
    REQUIRE(begun.wait_for(2));
    prefetcher.start(2);
    CHECK(ended == 2);
    REQUIRE(begun.wait_for(4));
  }
  CHECK(ended == 4);
}

TEST_CASE("a prefetcher that was never started can be destroyed", "[data][prefetcher]") {
  for (int round = 0; round < 100; ++round) {
    const Prefetcher prefetcher({.num_threads = 3, .window = 2},
                                [](std::int64_t, const std::stop_token&) {});
  }
  SUCCEED();
}

// A dataset may start processes, which inherit the mask: with SIGPIPE blocked, one that writes to
// `head` may never end.
TEST_CASE("a prefetcher's threads block the signals that their maker blocks",
          "[data][prefetcher]") {
  sigset_t before;
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  REQUIRE(pthread_sigmask(SIG_BLOCK, &blocked, &before) == 0);
  std::atomic<bool> is_so{false};
  Prefetcher prefetcher({.num_threads = 1, .window = 1}, [&](std::int64_t, const std::stop_token&) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    is_so = sigismember(&mask, SIGUSR1) == 1 && sigismember(&mask, SIGTERM) == 0 &&
            sigismember(&mask, SIGPIPE) == 0;
  });
  REQUIRE(pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
  prefetcher.start(1);
  prefetcher.wait(0);
  CHECK(is_so);
}

TEST_CASE("a prefetcher refuses invalid options", "[data][prefetcher]") {
  const auto error = [](int num_threads, std::int64_t window) {
    return error_of([&] {
      const Prefetcher prefetcher({.num_threads = num_threads, .window = window},
                                  [](std::int64_t, const std::stop_token&) {});
    });
  };
  CHECK(error(-1, 1) ==
        "[prefetcher] -1 threads and a window of 1; num_threads must be at least 0 "
        "and the window at least 1");
  CHECK(error(1, 0) ==
        "[prefetcher] 1 threads and a window of 0; num_threads must be at least 0 "
        "and the window at least 1");

  Prefetcher prefetcher({.num_threads = 1, .window = 2},
                        [](std::int64_t, const std::stop_token&) {});
  prefetcher.start(2);
  CHECK_THAT(error_of([&] { prefetcher.wait(1); }), Contains("task 1 of 2, with 0 released"));
  consume(prefetcher, 2);
  CHECK_THAT(error_of([&] { prefetcher.wait(2); }), Contains("task 2 of 2"));
}
