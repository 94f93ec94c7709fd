// SPDX-License-Identifier: MIT
//
// How ranks, run as threads, meet at the start, and what they report if they do not.
// start_options_test.cpp tests their options.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string>

#include "ddp/base/error.h"
#include "ddp/collectives/start/job_store.h"
#include "ddp/collectives/start/rendezvous.h"
#include "ddp/store/hash_store.h"
#include "ddp/store/prefix_store.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "support/free_endpoint.h"
#include "support/groups.h"
#include "support/scoped_variable.h"

using namespace ddp;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::Matches;
using test::error_of;
using test::expect;
using test::free_endpoint;
using test::ScopedVariable;

namespace {

constexpr Timeout kAtOnce = 5s;    // much shorter than the patience
constexpr Timeout kFarAway = 60s;  // much longer than the timeouts here, shorter than the default

Hello self_as(int rank, int world_size, int pid = ::getpid()) {
  Hello self = describe_self(rank, kCpuDevice);
  self.world_size = world_size;
  if (pid != ::getpid()) self.who.start_time = 0;  // unknown
  self.who.pid = pid;
  return self;
}

// The pid of another live process on this host.
int another_pid() { return ::getppid(); }

// The pid of a process that has ended.
int ended_pid() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  return pid;
}

// A process that only waits to be killed.
class WaitingProcess {
 public:
  WaitingProcess() : pid_(::fork()) {
    if (pid_ != 0) return;
    for (;;) ::pause();
  }
  ~WaitingProcess() { kill(); }
  WaitingProcess(const WaitingProcess&) = delete;
  WaitingProcess& operator=(const WaitingProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill() {
    if (is_killed_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    is_killed_ = true;
  }

 private:
  pid_t pid_;
  bool is_killed_ = false;
};

// What a rank logged while it waited, and how the wait ended.
struct Wait {
  std::vector<std::string> lines = {};
  std::string error = {};
  bool timed_out = false;
};

Wait wait_for_others(Store& store, const Hello& self) {
  Wait wait;
  StartPatience patience(5s, "here:1", 200ms,
                         [&](std::string_view line) { wait.lines.emplace_back(line); });
  try {
    (void)agree_on_plan(store, self, patience);
  } catch (const TimeoutError& error) {
    wait.timed_out = true;
    wait.error = describe(error);
  }
  return wait;
}

// Runs all ranks except one. They start in order, so that the first of them is the one that logs.
std::vector<Wait> wait_without(int absent, int world_size) {
  HashStore store;
  std::vector<Wait> waits(static_cast<std::size_t>(world_size));
  test::run_ranks(world_size, [&](int rank) {
    if (rank == absent) return;
    const int before = rank - 1 == absent ? rank - 2 : rank - 1;
    if (before >= 0) (void)store.get("hello/" + std::to_string(before), 20s);
    waits[static_cast<std::size_t>(rank)] = wait_for_others(store, self_as(rank, world_size));
  });
  return waits;
}

}  // namespace

TEST_CASE("ranks that do not come are named while the others wait, and in their errors",
          "[start]") {
  const int absent = GENERATE(0, 2);
  const std::size_t first = absent == 0 ? 1 : 0;
  const std::vector<Wait> waits = wait_without(absent, 4);
  const std::string missing = "; missing: rank " + std::to_string(absent) + "; store at here:1";
  for (std::size_t rank = 0; rank < 4; ++rank) {
    if (rank == static_cast<std::size_t>(absent)) continue;
    CAPTURE(rank, waits[rank].error);
    CHECK(waits[rank].timed_out);
    CHECK_THAT(waits[rank].error,
               Matches("\\[init\\] 3 of 4 ranks are here after ([2-9]|[1-9][0-9]) s" + missing +
                       " \\(the program or DDP_START_TIMEOUT sets how long to wait\\)"));
    CHECK(waits[rank].lines.empty() == (rank != first));
  }
  CHECK(waits[first].lines.size() > 1);
  CHECK_THAT(waits[first].lines.back(),
             Contains("3 of 4 ranks are here after ") && Contains(missing));
}

TEST_CASE("a rank that was there and gave up is not missing for the next that gives up",
          "[start]") {
  HashStore store;
  WaitingProcess first;
  CHECK_THAT(wait_for_others(store, self_as(1, 3, first.pid())).error,
             Contains("1 of 3 ranks are here") && Contains("missing: ranks 0, 2"));
  first.kill();
  CHECK_THAT(wait_for_others(store, self_as(2, 3)).error,
             Contains("2 of 3 ranks are here") && Contains("missing: rank 0;"));
  CHECK_THAT(wait_for_others(store, self_as(0, 3)).error,
             Contains("2 of 3 ranks are here") && Contains("missing: rank 1;"));
}

TEST_CASE("many missing ranks are listed as a range", "[start]") {
  HashStore store;
  const Wait wait = wait_for_others(store, self_as(1, 100));
  CHECK_THAT(wait.error,
             Contains("1 of 100 ranks are here") && Contains("missing: ranks 0, 2-99; store"));
}

TEST_CASE("init_process_group names who is missing", "[start]") {
  const auto store = std::make_shared<HashStore>();
  std::array<std::string, 2> errors;
  test::run_ranks(2, [&](int rank) {
    errors[static_cast<std::size_t>(rank)] = error_of([&] {
      (void)init_process_group({.device = DeviceChoice::kCpu,
                                .rank = 2 * rank,
                                .world_size = 3,
                                .store = store,
                                .ranks_are_threads = true,
                                .start_timeout = 6s});
    });
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Matches("\\[init\\] 2 of 3 ranks are here after "
                              "([3-9]|[1-9][0-9]) s; missing: rank 1.*"));
  }
}

TEST_CASE("a rank that cannot reach the store says where it should be", "[start]") {
  const Endpoint nowhere = free_endpoint();
  const InitOptions options{.device = DeviceChoice::kCpu,
                            .rank = 1,
                            .world_size = 2,
                            .master = nowhere,
                            .start_timeout = 3s};
  CHECK_THROWS_AS(init_process_group(options), TimeoutError);
  const auto begin = Clock::now();
  CHECK_THAT(error_of([&] { (void)init_process_group(options); }),
             Matches("\\[init\\] rank 1 has not reached the store at " + to_string(nowhere) +
                     " in [0-9]+ m?s.*Connection refused.*"));
  CHECK(Clock::now() - begin >= 3s);
  CHECK(Clock::now() - begin < kFarAway);
}

TEST_CASE("the store that rank 0 hosts stays for its clones, and a while for other ranks",
          "[start]") {
  WorkerEnv env{.rank = 0, .world_size = 2, .master = free_endpoint()};
  StartPatience patience(60s);
  JobStore own = open_job_store({}, env, 60s, patience);
  TcpStore other(env.master);
  std::shared_ptr<Store> clone = own.store->clone();
  own = {};
  CHECK_FALSE(other.has("k"));
  const auto begin = Clock::now();
  clone = nullptr;
  CHECK(Clock::now() - begin >= 900ms);
  CHECK_THROWS_AS(other.has("k"), NetworkError);
}

TEST_CASE("another world size is found at once by all ranks", "[start]") {
  HashStore store;
  const auto begin = Clock::now();
  test::run_ranks(3, [&](int rank) {
    const Hello self = self_as(rank, rank == 2 ? 4 : 3);
    StartPatience patience(60s);
    std::string error;
    try {
      (void)agree_on_plan(store, self, patience);
    } catch (const MismatchError& mismatch) {
      error = describe(mismatch);
    }
    expect(error.find("ranks differ in WORLD_SIZE: ") == 0, error);
    expect(error.find("rank 2 (" + self.who.host_name) != std::string::npos, error);
    expect(error.find(" has 4") != std::string::npos, error);
  });
  CHECK(Clock::now() - begin < kAtOnce);
}

TEST_CASE("an ended process with another world size does not block the start", "[start]") {
  const auto job = std::make_shared<HashStore>();
  const Hello wrong = self_as(0, 7, ended_pid());
  const auto store = claim_rank(job, wrong).store;
  store->set("first", serialize(wrong));
  test::run_ranks(2, [&](int rank) {
    const Hello self = self_as(rank, 2);
    StartPatience patience(60s);
    (void)agree_on_plan(*claim_rank(job, self).store, self, patience);
  });
}

TEST_CASE("a second process with a rank is an error for it and for those that wait", "[start]") {
  const auto job = std::make_shared<HashStore>();
  const auto begin = Clock::now();
  const std::string pids[] = {std::to_string(::getpid()), std::to_string(another_pid())};
  test::run_ranks(3, [&](int thread) {
    const std::string error = error_of([&] {
      if (thread == 2) {  // starts when the first has begun
        (void)job->get("init_1/hello/1", 20s);
        (void)claim_rank(job, self_as(1, 3, another_pid()));
      }
      const Hello self = self_as(thread, 3);
      StartPatience patience(60s);
      (void)agree_on_plan(*claim_rank(job, self).store, self, patience);
    });
    expect(error.find("rank 1 is already pid " + pids[0] + " on host ") == 0, error);
    expect(error.find("; pid " + pids[1] + " on host ") != std::string::npos, error);
  });
  CHECK(Clock::now() - begin < kAtOnce);
}

TEST_CASE("a second process with a rank does no harm to ranks that have met", "[start]") {
  const auto job = std::make_shared<HashStore>();
  const auto meet = [&] {
    test::run_ranks(2, [&](int rank) {
      const Hello self = self_as(rank, 2);
      StartPatience patience(20s);
      (void)agree_on_plan(*claim_rank(job, self).store, self, patience);
    });
  };
  meet();
  CHECK_THAT(error_of([&] { (void)claim_rank(job, self_as(1, 2, another_pid())); }),
             Contains("rank 1 is already pid " + std::to_string(::getpid())));
  CHECK(job->get("init_1/plan").starts_with("use "));
  meet();  // the same processes meet again
}

TEST_CASE("a process that has ended may be replaced", "[start]") {
  const auto job = std::make_shared<HashStore>();
  const Hello dead = self_as(1, 2, ended_pid());
  (void)claim_rank(job, dead).store->set("hello/1", serialize(dead));
  std::string line;
  test::run_ranks(2, [&](int rank) {
    const Hello self = self_as(rank, 2);
    if (rank == 1) (void)job->get("told", 20s);  // set when rank 0 knows who is missing
    StartPatience patience(20s, "", 50ms, [&](std::string_view text) {
      if (line.empty()) line = text;
      job->set("told", "");
    });
    (void)agree_on_plan(*claim_rank(job, self).store, self, patience);
  });
  CHECK_THAT(line, Contains("1 of 2 ranks are here after") && Contains("missing: rank 1"));
  CHECK(job->get("init/1") == "1");  // they used the keys of the dead process
}

TEST_CASE("a rank that dies while the group is made is named by those who wait", "[start]") {
  for (const Backend backend : {Backend::kShm, Backend::kTcp}) {
    CAPTURE(to_string(backend));
    const auto store = std::make_shared<HashStore>();
    WaitingProcess mortal;
    const auto begin = Clock::now();
    test::run_ranks(2, [&](int rank) {
      if (rank == 0) {
        const std::string error = error_of([&] {
          (void)init_process_group({.backend = backend,
                                    .device = DeviceChoice::kCpu,
                                    .rank = 0,
                                    .world_size = 2,
                                    .store = store,
                                    .ranks_are_threads = true,
                                    .start_timeout = kFarAway});
        });
        const std::string who = "pid " + std::to_string(mortal.pid()) + ", cpu) died before";
        expect(error.find("[init] rank 1 (") == 0, error);
        expect(error.find(who) != std::string::npos, error);
        return;
      }
      const auto run = std::make_shared<PrefixStore>("ddp/none", store);
      Hello self = self_as(1, 2, mortal.pid());
      self.backend = backend;
      StartPatience patience(20s);
      const auto own = claim_rank(std::make_shared<PrefixStore>("attempt_0", run), self).store;
      (void)agree_on_plan(*own, self, patience);
      mortal.kill();
    });
    CHECK(Clock::now() - begin < kAtOnce);
  }
}

TEST_CASE("the environment says how long to wait for ranks", "[start]") {
  const ScopedVariable variable("DDP_START_TIMEOUT", "0.5");
  const InitOptions options{.device = DeviceChoice::kCpu,
                            .rank = 0,
                            .world_size = 2,
                            .store = std::make_shared<HashStore>(),
                            .ranks_are_threads = true};
  const auto begin = Clock::now();
  CHECK_THAT(error_of([&] { (void)init_process_group(options); }),
             Matches(".*1 of 2 ranks are here after [0-9]+ m?s;.*"));
  CHECK(Clock::now() - begin >= 500ms);
  CHECK(Clock::now() - begin < kFarAway);
}
