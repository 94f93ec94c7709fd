// SPDX-License-Identifier: MIT
//
// Tests every collective on every backend that runs without a GPU, for world sizes 1 to 4, sizes 0,
// 1, a prime and large, in every dtype. The operands are small integers, whose sums are exact.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <span>
#include <thread>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/collectives/shm/shm_process_group.h"
#include "ddp/collectives/start/group_start.h"
#include "support/collective_checks.h"
#include "support/forwarding_store.h"
#include "support/gate.h"
#include "support/groups.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::check_exchanges;
using test::check_reductions;
using test::check_ring;
using test::error_of;
using test::expect;
using test::run_groups;

namespace {

constexpr std::size_t kPrime = 10007;
constexpr std::size_t kLarge = 200003;  // several chunks of the shm backend

// "TimeoutError: <its text>".
std::string caught(const std::function<void()>& call) {
  try {
    call();
  } catch (const TimeoutError& error) {
    return std::string("TimeoutError: ") + error.what();
  } catch (const MismatchError& error) {
    return std::string("MismatchError: ") + error.what();
  } catch (const PeerError& error) {
    return std::string("PeerError: ") + error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "nothing";
}

// The errors of three ranks that call fn(group); no rank leaves before all have called it.
std::vector<std::string> caught_by_ranks(Backend backend,
                                         const std::function<void(ProcessGroup&)>& fn) {
  std::vector<std::string> all(3);
  run_groups(backend, 3, [&](ProcessGroup& group) {
    all[static_cast<std::size_t>(group.rank())] = caught([&] { fn(group); });
    group.store().set("done/" + std::to_string(group.rank()), "");
    group.store().wait(std::vector<std::string>{"done/0", "done/1", "done/2"}, 20s);
  });
  return all;
}

// The store of a rank that learns late where the others are.
class LateStore final : public test::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  std::string get(std::string_view key, Timeout timeout) override {
    std::this_thread::sleep_for(50ms);
    return store()->get(key, timeout);
  }
  std::shared_ptr<Store> clone(Timeout timeout) const override {
    return std::make_shared<LateStore>(store()->clone(timeout));
  }
};

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
  for (const Backend backend : test::backends()) {
    for (const int world_size : {1, 2, 3, 4}) {
      INFO(to_string(backend) << ", " << world_size << " ranks");
      run_groups(backend, world_size, [](ProcessGroup& group) {
        for (const DType dtype : kAllDTypes) {
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
      std::int64_t sum = group.rank();
      part->all_reduce(buffer_of(std::span(&sum, 1))).wait();
      expect(sum == (color == 0 ? 2 : 1), "the sum over the part");
    });
  }
}

TEST_CASE("a rank that calls another collective while others split is an error on all of them",
          "[collectives]") {
  for (const Backend backend : test::backends()) {
    const Deadline promised = Deadline::after(5s);
    const auto call = [](ProcessGroup& group) {
      const std::string error = error_of([&] {
        if (group.rank() < 2) (void)group.split(0, 0);
        if (group.rank() == 2) group.barrier().wait();
      });
      expect(error.find("ranks called different collectives: ") != std::string::npos, error);
    };
    run_groups(backend, 3, call, 10s);
    CHECK_FALSE(promised.passed());
  }
}

TEST_CASE("different collectives are an error on every rank that quotes both", "[collectives]") {
  for (const Backend backend : test::backends()) {
    const std::string errors[] = {
        error_of([&] {
          run_groups(backend, 2, [](ProcessGroup& group) {
            std::vector<float> values(group.rank() == 0 ? 8 : 9);
            const std::string error = error_of([&] { group.all_reduce(buffer_of(values)).wait(); });
            throw std::runtime_error("rank 0: " + error);
          });
        }),
        error_of([&] {
          run_groups(backend, 2, [](ProcessGroup& group) {
            std::vector<float> values(8);
            const std::string error = error_of([&] {
              if (group.rank() == 0) group.all_reduce(buffer_of(values)).wait();
              if (group.rank() == 1) group.broadcast(buffer_of(values), 0).wait();
            });
            if (group.rank() == 1) throw std::runtime_error("rank 1: " + error);
          });
        })};
    CHECK(errors[0].find("rank 0 called #1 all_reduce(float32[8], sum), rank 1 called #1 "
                         "all_reduce(float32[9], sum)") != std::string::npos);
    CHECK(errors[1].find("rank 0 called #1 all_reduce(float32[8], sum), rank 1 called #1 "
                         "broadcast(float32[8], root 0)") != std::string::npos);
  }
}

TEST_CASE("a collective against a send or recv is an error that quotes both", "[collectives]") {
  for (const bool receives : {false, true}) {
    run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
      std::vector<float> values(1 << 20);
      const Buffer buffer = buffer_of(values);
      group.all_reduce(buffer).wait();
      const std::string error = error_of([&] {
        if (group.rank() == 0) group.all_reduce(buffer).wait();
        if (group.rank() == 1) (receives ? group.recv(buffer, 0) : group.send(buffer, 0)).wait();
      });
      expect(error.find("rank 0 called #2 all_reduce(float32[1048576], sum), rank 1 called #1 ") !=
                 std::string::npos,
             error);
      expect(error.find(receives ? "recv" : "send") != std::string::npos, error);
    });
  }
}

TEST_CASE("abort wakes every rank with the reason", "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 3, [](ProcessGroup& group) {
      std::vector<float> values(8);
      if (group.rank() == 2) {
        group.abort("the disk is full");
        return;
      }
      const std::string error = error_of([&] { group.all_reduce(buffer_of(values)).wait(); });
      expect(error.find("rank 2 aborted: the disk is full") != std::string::npos, error);
      const std::string again = error_of([&] { group.barrier().wait(); });
      expect(again == error, "the first error again, not: " + again);
    });
  }
}

TEST_CASE("all ranks throw one error, of the same class on every backend", "[collectives]") {
  for (const Backend backend : test::backends()) {
    CAPTURE(to_string(backend));
    const auto late = caught_by_ranks(backend, [](ProcessGroup& group) {
      if (group.rank() == 2) group.store().wait(std::vector<std::string>{"done/0", "done/1"}, 20s);
      const ScopedTimeout timeout(group, 300ms);
      group.barrier().wait();
    });
    const auto different = caught_by_ranks(backend, [](ProcessGroup& group) {
      std::vector<float> values(8);
      group.broadcast(buffer_of(values), group.rank() == 1 ? 1 : 0).wait();
    });
    const auto aborted = caught_by_ranks(backend, [](ProcessGroup& group) {
      if (group.rank() == 1) group.abort("on purpose");
      group.barrier().wait();
    });
    CHECK(late == std::vector(3, late[0]));
    CHECK_THAT(late[0], Catch::StartsWith("TimeoutError: ["));
    CHECK(different == std::vector(3, different[0]));
    CHECK_THAT(different[0], Catch::StartsWith("MismatchError: ["));
    CHECK(aborted == std::vector(3, aborted[0]));
    CHECK_THAT(aborted[0], Catch::StartsWith("PeerError: ["));
  }
}

TEST_CASE("a rank that leaves early is named by those who wait for it", "[collectives]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    if (group.rank() == 1) return;
    float value = 1;
    const std::string error =
        error_of([&] { group.all_reduce(buffer_of(std::span(&value, 1))).wait(); });
    expect(error.find("rank 1 (pid ") != std::string::npos, error);
    expect(error.find("left the group") != std::string::npos, error);
    expect(error.find("#1 all_reduce(float32[1], sum)") != std::string::npos, error);
  });
}

TEST_CASE("a rank that left is named by those who split or duplicate the group", "[collectives]") {
  const std::function<void(ProcessGroup&)> calls[] = {
      [](ProcessGroup& group) { (void)group.split(0, 0); },
      [](ProcessGroup& group) { (void)group.duplicate(); }};
  for (const Backend backend : test::backends()) {
    for (const auto& call : calls) {
      run_groups(backend, 2, [&](ProcessGroup& group) {
        if (group.rank() == 1) return;
        const std::string error = error_of([&] { call(group); });
        expect(error.find("rank 1 (") != std::string::npos, error);
        expect(error.find("left the group") != std::string::npos, error);
      });
    }
  }
}

// The ranks have met in an operation, and wait for each other in the store.
TEST_CASE("ranks that split or duplicate a group notice that another rank breaks it",
          "[collectives]") {
  const auto split_half = [](ProcessGroup& group) {
    std::vector<std::int32_t> color_and_key(2);
    std::vector<std::int32_t> all(2 * static_cast<std::size_t>(group.world_size()));
    group.all_gather(buffer_of(color_and_key), buffer_of(all)).wait();
  };
  struct Call {
    std::function<void(ProcessGroup&)> whole;
    std::function<void(ProcessGroup&)> half;
  };
  const Call calls[] = {{[](ProcessGroup& group) { (void)group.split(0, 0); }, split_half},
                        {[](ProcessGroup& group) { (void)group.duplicate(); },
                         [](ProcessGroup& group) { group.barrier().wait(); }}};
  for (const Backend backend : test::backends()) {
    for (const Call& call : calls) {
      run_groups(backend, 3, [&](ProcessGroup& group) {
        const auto begin = Clock::now();
        const std::string error = error_of([&] {
          if (group.rank() != 1) return call.whole(group);
          call.half(group);
          group.abort("on purpose");
        });
        if (group.rank() == 1) return;
        expect(error.find("rank 1 aborted: on purpose") != std::string::npos, error);
        expect(Clock::now() - begin < 10s, "the error to come soon");
      });
    }
  }
}

TEST_CASE("a rank that has left breaks only waits that have not got what they wait for",
          "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 2, [](ProcessGroup& group) {
      if (group.rank() == 0) return;
      const int leader[] = {0};
      bool has_left = false;
      const auto has_come = [&] { return has_left = true; };
      const Deadline deadline = Deadline::after(10s);
      while (!has_left && !deadline.passed()) group.check_on(leader, has_come);
      expect(has_left, "rank 0's leaving to be seen");
      group.check_on({}, [] { return false; });
      const std::string error = error_of([&] { group.check_on(leader, [] { return false; }); });
      expect(error.find("left the group, while rank 1 waits for it") != std::string::npos, error);
    });
  }
}

TEST_CASE("the error of a rank that cannot construct its group ends the others' wait for it",
          "[collectives]") {
  const auto store = std::make_shared<HashStore>();
  const auto begin = Clock::now();
  test::run_ranks(3, [&](int rank) {
    const GroupConfig config{.store = store,
                             .background_store = store,
                             .rank = rank,
                             .world_size = 3,
                             .start_timeout = test::kStartTimeout};
    const std::string error = error_of([&] {
      (void)start_group(config, [](GroupConfig own) {
        if (own.rank == 1) throw SystemError("cannot create shared memory", ENOMEM);
        return make_shm_process_group(std::move(own));
      });
    });
    const std::string cause = "cannot create shared memory: Cannot allocate memory";
    expect(error == (rank == 1 ? cause : "[start] rank 1 cannot join group \"default\": " + cause),
           error);
  });
  CHECK(Clock::now() - begin < 10s);
}

TEST_CASE("a group with unfinished work can be destroyed at once", "[collectives]") {
  std::vector<float> values(100);
  CHECK(error_of([&] {
          run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
            if (group.rank() == 0) (void)group.all_reduce(buffer_of(values));
          });
        }).empty());
}

TEST_CASE("a group that is destroyed ends what was submitted", "[collectives]") {
  for (const Backend backend : test::backends()) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{100'000}}) {
      std::vector<std::vector<float>> values(2, std::vector<float>(count, 1));
      run_groups(backend, 2, [&](ProcessGroup& group) {
        (void)group.all_reduce(buffer_of(values[static_cast<std::size_t>(group.rank())]));
      });
      for (const auto& sums : values) CHECK(sums == std::vector<float>(count, 2));
    }
  }
}

TEST_CASE("a forked child that destroys its parent's group does it no harm", "[collectives]") {
  for (const Backend backend : test::backends()) {
    if (backend == Backend::kShmGloo) continue;  // consists of the others
    const auto store = std::make_shared<HashStore>();
    test::Gate child_ended;
    test::run_ranks(2, [&](int rank) {
      auto group = init_process_group({.backend = backend,
                                       .device = DeviceChoice::kCpu,
                                       .rank = rank,
                                       .world_size = 2,
                                       .store = store,
                                       .ranks_are_threads = true});
      Allocation memory = group->allocate(1 << 20);
      group->barrier().wait();
      const std::span<float> values(static_cast<float*>(memory.data()), (1 << 20) / sizeof(float));
      std::ranges::fill(values, 1);
      if (rank == 1) expect(child_ended.wait_for(1), "the child to end");
      const Work sum = group->all_reduce(buffer_of(values));
      const pid_t child = rank == 0 ? ::fork() : -1;
      if (child == 0) {
        ::alarm(10);
        memory = {};
        group.reset();
        ::_exit(0);
      }
      int status = 0;
      if (rank == 0) {
        expect(::waitpid(child, &status, 0) == child, "a child");
        child_ended.raise();
      }
      expect(status == 0, "the child to end by itself");
      sum.wait();
      expect(std::ranges::count(values, 2) == std::ssize(values), "the sums");
    });
  }
}

TEST_CASE("a forked child cannot use its parent's group", "[collectives]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    float value = 1;
    const Buffer buffer{&value, 1, DType::kFloat32, kCpuDevice};
    const Work work = group.all_reduce(buffer);
    if (group.rank() == 0) {
      const pid_t child = ::fork();
      if (child == 0) {
        const std::string refusal = error_of([&] { (void)group.all_reduce(buffer); });
        const std::string waiting = error_of([&] { work.wait(); });
        const std::string parent = "belongs to process " + std::to_string(::getppid());
        const bool is_named = refusal.find(parent) != std::string::npos && waiting == refusal;
        ::_exit(is_named ? 0 : 1);
      }
      int status = -1;
      expect(::waitpid(child, &status, 0) == child && status == 0, "the fork is refused");
    }
    work.wait();
    expect(value == 2, "the sum");
  });
}

TEST_CASE("after an error operands may be freed at once", "[collectives]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    auto values = std::make_unique<std::vector<float>>(4 << 20);
    const Work work = group.all_reduce(buffer_of(*values));
    if (group.rank() == 0) group.abort("on purpose");
    const std::string error = error_of([&] { work.wait(); });
    values.reset();
    expect(error.empty() || error.find("on purpose") != std::string::npos, error);
  });
}

// Longer than a release waits for an operation that uses the memory.
TEST_CASE("memory is released while an operation waits that does not use it", "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 2, [](ProcessGroup& group) {
      Allocation unrelated = group.allocate(1 << 20);
      std::vector<float> values(1000, 1);
      if (group.rank() == 1) std::this_thread::sleep_for(1500ms);
      const Work work = group.all_reduce(buffer_of(values));
      unrelated = {};
      work.wait();
      expect(values == std::vector<float>(1000, 2), "the sum");
    });
  }
}

TEST_CASE("memory that an operation uses is released behind it", "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 2, [](ProcessGroup& group) {
      Allocation memory = group.allocate(1000 * sizeof(float));
      if (group.rank() == 1) std::this_thread::sleep_for(100ms);
      const Work work = group.all_reduce({memory.data(), 1000, DType::kFloat32, kCpuDevice});
      const auto begin = Clock::now();
      memory = {};
      expect(group.rank() == 1 || Clock::now() - begin > 50ms, "it waited");
      work.wait();
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

TEST_CASE("a timeout names the ranks that have not joined", "[collectives]") {
  run_groups(
      Backend::kShm, 2,
      [](ProcessGroup& group) {
        if (group.rank() == 1) {
          // Stays until rank 0 has given up, but does not take part.
          (void)group.store().get("done");
          return;
        }
        float value = 1;
        const std::string error =
            error_of([&] { group.all_reduce(buffer_of(std::span(&value, 1))).wait(); });
        group.store().set("done", "");
        expect(error.find("timed out after 200 ms in #1 all_reduce") != std::string::npos, error);
        expect(error.find("not joined by rank 1") != std::string::npos, error);
      },
      200ms);
}

TEST_CASE("a Gloo group without its peers gives up in time with an error", "[collectives]") {
  if (!gloo_is_compiled_in()) return;
  const Deadline promised = Deadline::after(5 * 1s);
  const std::string error = error_of([] {
    (void)make_gloo_process_group({.store = std::make_shared<HashStore>(),
                                   .rank = 0,
                                   .world_size = 2,
                                   .start_timeout = 200ms},
                                  "127.0.0.1");
  });
  CHECK_THAT(error, Catch::StartsWith("[gloo] rank 0 (127.0.0.1) cannot connect to its peers"));
  CHECK_FALSE(promised.passed());
}

TEST_CASE("a rank that leaves a Gloo group at once waits until the others have connected",
          "[collectives]") {
  if (!gloo_is_compiled_in()) return;
  for (int round = 0; round < 8; ++round) {  // by chance, either rank calls the other
    const auto store = std::make_shared<HashStore>();
    test::run_ranks(2, [&](int rank) {
      std::shared_ptr<Store> own = store;
      if (rank == 1) own = std::make_shared<LateStore>(store);
      (void)make_gloo_process_group(
          {.store = own, .rank = rank, .world_size = 2, .start_timeout = 60s}, "127.0.0.1");
    });
  }
}

TEST_CASE("a Gloo group waits for a late peer longer than its operations may take",
          "[collectives]") {
  if (!gloo_is_compiled_in()) return;
  constexpr Timeout kTimeout = 100ms;
  const auto store = std::make_shared<HashStore>();
  test::run_ranks(2, [&](int rank) {
    if (rank == 1) std::this_thread::sleep_for(5 * kTimeout);  // comes late
    const auto group = make_gloo_process_group(
        {.store = store, .rank = rank, .world_size = 2, .timeout = kTimeout, .start_timeout = 60s},
        "127.0.0.1");
    const ScopedTimeout patience(*group, 60s);
    group->barrier().wait();
  });
}

TEST_CASE("bad arguments are refused before anything starts", "[collectives]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    const auto refuses = [](const auto& call) { return !error_of([&] { (void)call(); }).empty(); };
    std::vector<float> four(4);
    std::vector<float> five(5);
    std::vector<std::int32_t> integers(4);
    expect(refuses([&] { return group.all_gather(buffer_of(four), buffer_of(five)); }), "size");
    expect(refuses([&] { return group.broadcast(buffer_of(four), 2); }), "root");
    expect(refuses([&] { return group.send(buffer_of(four), group.rank()); }), "self");
    expect(refuses([&] { return group.all_reduce(buffer_of(integers), ReduceOp::kAverage); }),
           "integer average");
    Buffer no_memory{nullptr, 4, DType::kFloat32, kCpuDevice};
    expect(refuses([&] { return group.all_reduce(no_memory); }), "null");
    Buffer elsewhere{four.data(), 4, DType::kFloat32, cuda_device(0)};
    expect(refuses([&] { return group.all_reduce(elsewhere); }), "device");
    expect(refuses([&] { return group.start_timing(0), 0; }), "no operations to time");
    expect(refuses([&] { return group.start_timing(ProcessGroup::kMaxTimedOperations + 1), 0; }),
           "too many operations to time");
    group.start_timing(ProcessGroup::kMaxTimedOperations);
    group.barrier().wait();
  });
}

// Gloo would silently return wrong elements.
TEST_CASE("operands may overlap only if a rank's share lies at its place in the whole",
          "[collectives]") {
  for (const Backend backend : test::backends()) {
    for (const int world_size : {1, 2, 3}) {
      run_groups(backend, world_size, [](ProcessGroup& group) {
        constexpr std::size_t kShare = 5000;
        const auto rank = static_cast<std::size_t>(group.rank());
        const auto ranks = static_cast<std::size_t>(group.world_size());
        std::vector<float> memory(ranks * kShare + 1, static_cast<float>(rank));
        const Buffer all = buffer_of(memory);
        const Buffer whole = all.slice(0, ranks * kShare);
        const Buffer own = whole.slice(rank * kShare, kShare);
        const Buffer beside = all.slice(rank * kShare + 1, kShare);
        const auto refuses = [](const auto& call) {
          const std::string error = error_of([&] { (void)call(); });
          expect(error.find("overlap") != std::string::npos, "overlap, not '" + error + "'");
        };
        refuses([&] { return group.all_gather(beside, whole); });
        refuses([&] { return group.reduce_scatter(whole, beside); });
        refuses([&] { return group.all_to_all(whole, whole); });
        if (rank == 0) refuses([&] { return group.gather(beside, whole, 0); });
        if (rank == 0) refuses([&] { return group.scatter(whole, beside, 0); });
        group.all_gather(own, whole).wait();
        for (std::size_t i = 0; i < ranks * kShare; ++i) {
          expect(memory[i] == static_cast<float>(i / kShare), "the share of each rank");
        }
        group.reduce_scatter(whole, own).wait();
        expect(memory[rank * kShare] == static_cast<float>(rank * ranks), "their sum");
      });
    }
  }
}

TEST_CASE("a timeout must be above 0 and may be the largest number", "[collectives]") {
  for (const Backend backend : test::backends()) {
    for (const int world_size : {1, 2}) {
      const auto add_up = [&](ProcessGroup& group) {
        float sum = 1;
        group.all_reduce(buffer_of(std::span(&sum, 1))).wait();
        {
          const ScopedTimeout scoped(group, Timeout::max());
          group.all_reduce(buffer_of(std::span(&sum, 1))).wait();
        }
        expect(sum == static_cast<float>(world_size * world_size), "the sum");
      };
      run_groups(backend, world_size, add_up, Timeout::max());
      if (backend == Backend::kShmGloo && world_size > 1) continue;  // users cannot create it
      for (const Timeout timeout : {0ms, -1ms}) {
        CHECK(error_of([&] { run_groups(backend, world_size, add_up, timeout); }) ==
              "[init] a timeout is " + std::to_string(timeout.count()) +
                  " ms, but it must be above 0");
      }
    }
  }
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
