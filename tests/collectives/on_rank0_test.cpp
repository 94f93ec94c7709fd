// SPDX-License-Identifier: MIT
#include "ddp/collectives/on_rank0.h"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/error.h"
#include "support/gate.h"
#include "support/groups.h"
#include "support/stderr_capture.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;

namespace {

constexpr OnRank0Options kQuick = {.period = 20ms, .silence = 3s};

}  // namespace

TEST_CASE("on_rank0 runs the function only on rank 0, and the others return after it",
          "[on_rank0]") {
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
  test::for_each_at_once(test::backends(), [](Backend backend) {
    test::Gate begun;
    std::atomic<bool> done = false;
    const auto work = [&] {
      begun.raise();
      std::this_thread::sleep_for(kQuick.silence + 1s);  // longer than both limits
      done = true;
    };
    test::run_groups(backend, 3, [&](ProcessGroup& group) {
      const ScopedTimeout impatience(group, 300ms);
      // Rank 0 has called on_rank0 in time.
      if (group.rank() != 0) expect(begun.wait_for(1), "rank 0 to begin");
      on_rank0(group, work, kQuick);
      expect(done, "rank 0 to be done");
      const ScopedTimeout patience(group, 60s);
      float value = 1;
      group.all_reduce({&value, 1, DType::kFloat32, kCpuDevice}).wait();
      expect(value == 3, "a group that works");
    });
  });
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

// The store takes values of 64 MiB.
TEST_CASE("the other ranks get the beginning of a text that is too long for the store",
          "[on_rank0]") {
  test::run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    const auto fails = [] { throw std::runtime_error("BAD " + std::string(70 << 20, 'x')); };
    const std::string text = error_of([&] { on_rank0(group, fails, kQuick); });
    if (group.rank() == 0) return;
    expect(text.starts_with("[on_rank0] rank 0 failed: BAD xxx"), text.substr(0, 100));
    expect(text.ends_with("x...") && text.size() < (65 << 10), "only the beginning");
  });
}

TEST_CASE("a rank 0 that does not call on_rank0 is named", "[on_rank0]") {
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
        expect(text == "[on_rank0] rank 0 has not called on_rank0 within 300 ms", text);
      },
      300ms);
}

TEST_CASE("a rank 0 that waits in another call is noticed long before the timeout", "[on_rank0]") {
  test::run_groups(
      Backend::kShm, 2,
      [](ProcessGroup& group) {
        const auto begin = Clock::now();
        const std::string text = error_of([&] {
          if (group.rank() == 0) return group.barrier().wait();
          on_rank0(
              group, [] {}, kQuick);
        });
        expect(Clock::now() - begin < 20s, "an error soon");
        expect(text.find("rank 1 called on_rank0 after 0 collectives of the group, but rank 0 is "
                         "in another call after 1") != std::string::npos,
               text);
      },
      60s, {.period = 50ms});
}

TEST_CASE("a ScopedTimeout also limits how long rank 0 may take to call on_rank0", "[on_rank0]") {
  test::run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
    std::vector<float> done(1);
    if (group.rank() == 1) {
      const ScopedTimeout limited(group, 300ms);
      const std::string text = error_of([&] {
        on_rank0(
            group, [] {}, kQuick);
      });
      expect(text == "[on_rank0] rank 0 has not called on_rank0 within 300 ms", text);
    }
    group.broadcast(buffer_of(done), 1).wait();
  });
}

TEST_CASE("whoever waits in on_rank0 notices that another rank has broken the group",
          "[on_rank0]") {
  test::for_each_at_once(test::backends(), [](Backend backend) {
    test::for_each_at_once(std::array{false, true}, [&](bool rank0_comes) {
      test::Gate entered;
      test::Gate noticed;
      test::run_groups(backend, 3, [&](ProcessGroup& group) {
        const auto wait = [&] {
          entered.raise();
          expect(noticed.wait_for(1), "rank 2 to notice");
        };
        if (group.rank() == 0) return rank0_comes ? on_rank0(group, wait, kQuick) : wait();
        if (group.rank() == 1) {
          expect(entered.wait_for(1), "rank 0 to wait");
          group.abort("on purpose");
          return wait();
        }
        const std::string text = error_of([&] {
          on_rank0(
              group, [] {}, kQuick);
        });
        noticed.raise();
        expect(text.find("rank 1 aborted: on purpose") != std::string::npos, text);
      });
    });
  });
}

// Ranks learn at different collectives that a group is broken, which does not make their calls of
// on_rank0 different ones.
TEST_CASE("on_rank0 in a broken group throws the error that broke it, and runs nothing",
          "[on_rank0]") {
  for (const Backend backend : test::backends()) {
    test::Gate broken;
    test::run_groups(backend, 3, [&](ProcessGroup& group) {
      if (group.rank() == 1) group.abort("on purpose");
      const std::string first = error_of([&] {
        for (;;) group.barrier().wait();
      });
      broken.raise();
      expect(broken.wait_for(3), "all ranks to know");
      bool ran = false;
      const std::string text = error_of([&] {
        on_rank0(
            group, [&] { ran = true; }, kQuick);
      });
      expect(text == first, text + ", but not " + first);
      expect(!ran, "the function ran");
    });
  }
}

TEST_CASE("whoever waits in on_rank0 notices that rank 0 has left", "[on_rank0]") {
  for (const Backend backend : test::backends()) {
    test::run_groups(backend, 2, [&](ProcessGroup& group) {
      if (group.rank() == 0) return;
      const std::string text = error_of([&] {
        on_rank0(
            group, [] {}, kQuick);
      });
      expect(text.find("rank 0 (") != std::string::npos, text);
      expect(text.find("left the group, while rank 1 waits for it") != std::string::npos, text);
    });
  }
}

// Otherwise the rank would take the result of the call that it skipped.
TEST_CASE("an on_rank0 that only rank 0 calls is warned of", "[on_rank0]") {
  const test::StderrCapture captured;
  test::run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    if (group.rank() == 0) on_rank0(group, [] {});
    group.barrier().wait();
  });
  CHECK_THAT(captured.text(), Catch::Contains("no other rank has come to this call of rank 0"));
}

TEST_CASE("a rank that does not come to an on_rank0 is named", "[on_rank0]") {
  const test::StderrCapture captured;
  test::run_groups(Backend::kShm, 3, [](ProcessGroup& group) {
    if (group.rank() != 1) on_rank0(group, [] {});
    group.barrier().wait();
  });
  CHECK_THAT(captured.text(), Catch::Contains("rank 1 has not come to this call of rank 0 yet"));
}

TEST_CASE("a rank that skips an on_rank0 is named in its next one", "[on_rank0]") {
  test::for_each_at_once(test::backends(), [](Backend backend) {
    test::run_groups(backend, 3, [](ProcessGroup& group) {
      bool is_own = false;
      const std::string text = error_of([&] {
        try {
          const auto fails = [] { throw std::invalid_argument("of the call that rank 1 skipped"); };
          const auto first = [&] { on_rank0(group, fails, kQuick); };
          if (group.rank() != 1) expect(!error_of(first).empty(), "an error");
          float sum = 1;
          group.all_reduce(buffer_of(std::span(&sum, 1))).wait();
          on_rank0(
              group, [] {}, kQuick);
          group.all_reduce(buffer_of(std::span(&sum, 1))).wait();
        } catch (const MismatchError&) {
          is_own = true;
          throw;
        }
      });
      expect(is_own == (group.rank() == 1), "a MismatchError on the rank that finds out: " + text);
      expect(text.find("rank 0 called on_rank0 after ") != std::string::npos &&
                 text.find("of the group, but rank 1 after ") != std::string::npos &&
                 text.find("one of them has skipped an on_rank0") != std::string::npos,
             text);
    });
  });
}

TEST_CASE("transfers between some ranks do not count as different calls in on_rank0",
          "[on_rank0]") {
  for (const Backend backend : test::backends()) {
    test::run_groups(backend, 3, [](ProcessGroup& group) {
      float value = 1;
      if (group.rank() == 1) group.send(buffer_of(std::span(&value, 1)), 2).wait();
      if (group.rank() == 2) group.recv(buffer_of(std::span(&value, 1)), 1).wait();
      on_rank0(
          group, [] {}, kQuick);
    });
  }
}

// The other ranks wait for fn to end, so fn would wait for them in vain.
TEST_CASE("using the group inside fn is an error at once, and the group works afterwards",
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
              " was called inside the function for whose end the other ranks wait, so "
              "they would never join it: call it before or after, on all ranks";
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

// The other ranks wait in on_rank0, and so do not come to operations of other groups, either.
TEST_CASE("a group that was made from the same one is refused inside fn, too", "[on_rank0]") {
  for (const Backend backend : test::backends()) {
    for (const int world_size : {2, 3}) {
      test::run_groups(backend, world_size, [&](ProcessGroup& group) {
        const auto duplicate = group.duplicate();
        const auto part = duplicate->split(0, 0);
        float sum = 1;
        const auto add = [&](ProcessGroup& which) {
          sum = 1;
          which.all_reduce(buffer_of(std::span(&sum, 1))).wait();
        };
        for (const auto& [caller, used] :
             {std::pair{&group, duplicate.get()}, std::pair{&group, part.get()},
              std::pair{part.get(), &group}, std::pair{duplicate.get(), part.get()}}) {
          const std::string text = error_of([&, caller = caller, used = used] {
            on_rank0(
                *caller, [&] { add(*used); }, kQuick);
          });
          expect(text.find("[on_rank0] all_reduce was called inside the function") !=
                     std::string::npos,
                 text);
          add(*used);
          expect(sum == static_cast<float>(group.world_size()), "a group that works");
        }
      });
    }
  }
}

TEST_CASE("inside fn rank 0 may meet ranks that do not wait, and threads of those that do",
          "[on_rank0]") {
  for (const Backend backend : test::backends()) {
    test::run_groups(backend, 3, [&](ProcessGroup& group) {
      const auto pair = group.split(group.rank() == 1 ? 1 : 0, 0);  // of ranks 0 and 2
      const auto duplicate = group.duplicate();
      const auto first = group.split(group.rank() == 2 ? 1 : 0, 0);  // of ranks 0 and 1
      const auto sum_of = [](ProcessGroup& which) {
        float sum = 1;
        which.all_reduce(buffer_of(std::span(&sum, 1))).wait();
        return sum;
      };
      float in_thread = 0;
      std::thread thread;
      const auto start = [&] { thread = std::thread([&] { in_thread = sum_of(*duplicate); }); };
      if (group.rank() != 0) start();
      float in_pair = 2;
      if (group.rank() == 2) in_pair = sum_of(*pair);
      if (group.rank() != 2) {
        on_rank0(
            *first,
            [&] {
              start();
              in_pair = sum_of(*pair);
              thread.join();
            },
            kQuick);
      }
      if (thread.joinable()) thread.join();
      expect(in_pair == 2 && in_thread == 3, std::to_string(in_pair));
    });
  }
}

// The store ends with rank 0, and the others may notice that first.
