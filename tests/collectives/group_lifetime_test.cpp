// SPDX-License-Identifier: MIT
//
// How groups start, are destroyed and forked, and when their memory is released.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/meeting/group_start.h"
#include "ddp/collectives/on_rank0.h"
#include "ddp/collectives/shm/shm_process_group.h"
#include "ddp/collectives/tcp/tcp_process_group.h"
#include "ddp/store/hash_store.h"
#include "support/forwarding_store.h"
#include "support/gate.h"
#include "support/groups.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;
using test::run_groups;

namespace {

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

GroupConfig one_of_three(const std::shared_ptr<HashStore>& store, int rank) {
  return {.store = store,
          .background_store = store,
          .rank = rank,
          .world_size = 3,
          .start_timeout = test::kStartTimeout};
}

}  // namespace

TEST_CASE("the error of a rank that cannot construct its group ends the others' wait for it",
          "[collectives]") {
  const auto no_memory = [] { throw SystemError("cannot create shared memory", ENOMEM); };
  const auto busy_store = [] { throw TimeoutError("set(\"who/1\") timed out after 5000 ms"); };
  for (const auto& [fail, cause] :
       {std::pair<std::function<void()>, std::string>{
            no_memory, "cannot create shared memory: Cannot allocate memory"},
        {busy_store, "set(\"who/1\") timed out after 5000 ms"}}) {
    const auto store = std::make_shared<HashStore>();
    const auto begin = Clock::now();
    test::run_ranks(3, [&](int rank) {
      const std::string error = error_of([&] {
        (void)start_group(one_of_three(store, rank), [&](GroupConfig own) {
          if (own.rank == 1) fail();
          return make_shm_process_group(std::move(own));
        });
      });
      expect(
          error == (rank == 1 ? cause : "[start] rank 1 cannot join group \"default\": " + cause),
          error);
    });
    CHECK(Clock::now() - begin < 10s);
  }
}

TEST_CASE(
    "the error of a rank that has met the others, but cannot finish its group, is theirs, too",
    "[collectives]") {
  const auto store = std::make_shared<HashStore>();
  const auto begin = Clock::now();
  test::run_ranks(3, [&](int rank) {
    const std::string error = error_of([&] {
      (void)start_group(one_of_three(store, rank), [&](GroupConfig own) {
        const std::shared_ptr<ProcessGroup> group = make_shm_process_group(std::move(own));
        if (rank == 1) throw SystemError("cannot start a thread", EAGAIN);
        return group;
      });
    });
    expect(error.find("cannot start a thread: Resource temporarily unavailable") !=
                   std::string::npos &&
               error.starts_with("[start] rank 1 cannot join") == (rank != 1),
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
      test::Gate submitted;  // a rank that leaves waits a second for the others
      run_groups(backend, 2, [&](ProcessGroup& group) {
        (void)group.all_reduce(buffer_of(values[static_cast<std::size_t>(group.rank())]));
        submitted.raise();
        expect(submitted.wait_for(2), "both ranks to submit");
      });
      for (const auto& sums : values) CHECK(sums == std::vector<float>(count, 2));
    }
  }
}

TEST_CASE("a forked child that destroys its parent's group does it no harm", "[collectives]") {
  for (const Backend backend : test::backends()) {
    if (backend == Backend::kShmTcp) continue;  // consists of the others
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
        ::alarm(10);
        const std::string refusal = error_of([&] { (void)group.all_reduce(buffer); });
        const std::function<void()> uses[] = {[&] { work.wait(); },
                                              [&] { (void)work.interval(); },
                                              [&] { (void)group.allocate(64); },
                                              [&] { (void)group.store(); },
                                              [&] { group.start_timing(1); },
                                              [&] { group.abort("from a child"); },
                                              [&] { on_rank0(group, [] {}); }};
        const std::string parent = "belongs to process " + std::to_string(::getppid());
        const bool is_named = refusal.find(parent) != std::string::npos;
        const bool is_refused =
            std::ranges::all_of(uses, [&](const auto& use) { return error_of(use) == refusal; });
        ::_exit(is_named && is_refused ? 0 : 1);
      }
      int status = -1;
      expect(::waitpid(child, &status, 0) == child && status == 0, "the fork is refused");
    }
    work.wait();
    expect(value == 2, "the sum");
    group.barrier().wait();  // the group is as it was
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
      std::vector<float> all(2000);
      if (group.rank() == 1) std::this_thread::sleep_for(1500ms);
      const Work work = group.all_gather(buffer_of(values), buffer_of(all));
      unrelated = {};
      work.wait();
      expect(all == std::vector<float>(2000, 1), "all values");
    });
  }
}

TEST_CASE("memory that an operation uses is released behind it", "[collectives]") {
  for (const Backend backend : test::backends()) {
    test::Gate releases;
    run_groups(backend, 2, [&](ProcessGroup& group) {
      Allocation memory = group.allocate(1000 * sizeof(float));
      if (group.rank() == 1) {
        expect(releases.wait_for(1), "rank 0 to release");
        std::this_thread::sleep_for(100ms);
      }
      const Work work = group.all_reduce({memory.data(), 1000, DType::kFloat32, kCpuDevice});
      const auto begin = Clock::now();
      releases.raise();
      memory = {};
      expect(group.rank() == 1 || Clock::now() - begin > 50ms, "it waited");
      work.wait();
    });
  }
}

TEST_CASE("a tcp group without its peers gives up in time with an error", "[collectives]") {
  const Deadline promised = Deadline::after(5 * 1s);
  const std::string error = error_of([] {
    (void)make_tcp_process_group({.store = std::make_shared<HashStore>(),
                                  .rank = 0,
                                  .world_size = 2,
                                  .start_timeout = 200ms},
                                 "127.0.0.1");
  });
  CHECK_THAT(error, Catch::StartsWith("[tcp] rank 0 (127.0.0.1) cannot connect to its peers"));
  CHECK_FALSE(promised.passed());
}

TEST_CASE("a rank of a tcp group that cannot reach another one names its address",
          "[collectives]") {
  const auto store = std::make_shared<HashStore>();
  store->set("tcp/0", "127.0.0.1\n1\n12345\n");  // nobody listens on that port
  const std::string error = error_of([&] {
    (void)make_tcp_process_group({.store = store, .rank = 1, .world_size = 2, .start_timeout = 4s},
                                 "127.0.0.1");
  });
  CHECK_THAT(error, Catch::StartsWith("[tcp] rank 1 (127.0.0.1) cannot connect to its peers: rank "
                                      "0: cannot connect to 127.0.0.1:1 ("));
}

TEST_CASE("a rank that leaves a tcp group at once waits until the others have connected",
          "[collectives]") {
  for (int round = 0; round < 8; ++round) {  // by chance, either rank calls the other
    const auto store = std::make_shared<HashStore>();
    test::run_ranks(2, [&](int rank) {
      std::shared_ptr<Store> own = store;
      if (rank == 1) own = std::make_shared<LateStore>(store);
      (void)make_tcp_process_group(
          {.store = own, .rank = rank, .world_size = 2, .start_timeout = 60s}, "127.0.0.1");
    });
  }
}

TEST_CASE("a tcp group waits for a late peer longer than its operations may take",
          "[collectives]") {
  constexpr Timeout kTimeout = 100ms;
  const auto store = std::make_shared<HashStore>();
  test::run_ranks(2, [&](int rank) {
    if (rank == 1) std::this_thread::sleep_for(5 * kTimeout);  // comes late
    const auto group = make_tcp_process_group(
        {.store = store, .rank = rank, .world_size = 2, .timeout = kTimeout, .start_timeout = 60s},
        "127.0.0.1");
    const ScopedTimeout patience(*group, 60s);
    group->barrier().wait();
  });
}
