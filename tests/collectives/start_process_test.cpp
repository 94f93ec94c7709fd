// SPDX-License-Identifier: MIT
//
// Real processes: ranks that come late or twice, and the variables that limit the wait.
#include <signal.h>

#include <array>
#include <catch2/catch.hpp>
#include <optional>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "support/child_process.h"
#include "support/free_endpoint.h"
#include "support/job.h"

using namespace ddp;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using test::ChildProcess;
using test::free_endpoint;

namespace {

constexpr Timeout kBound = 5s;  // five times the promise

// A worker with the store at `store`, which an agent hosts or, if not, rank 0.
ChildProcess worker(int rank, int world_size, const Endpoint& store, bool agent_hosts_store,
                    const char* mode = "sum") {
  const std::string r = std::to_string(rank);
  const std::string n = std::to_string(world_size);
  return ChildProcess(
      {DDP_COLLECTIVE_WORKER_PATH, mode, "shm"},
      {.environment = {{"RANK", r},
                       {"LOCAL_RANK", r},
                       {"WORLD_SIZE", n},
                       {"LOCAL_WORLD_SIZE", n},
                       {"MASTER_ADDR", store.host},
                       {"MASTER_PORT", std::to_string(store.port)},
                       {"TORCHELASTIC_USE_AGENT_STORE", agent_hosts_store ? "True" : "False"}}});
}

// A program in the shell of the first of four tasks.
ChildProcess task_of_srun(const Endpoint& store) {
  return ChildProcess({DDP_COLLECTIVE_WORKER_PATH, "sum", "shm"},
                      {.environment = {{"SLURM_PROCID", "0"},
                                       {"SLURM_LOCALID", "0"},
                                       {"SLURM_NODEID", "0"},
                                       {"SLURM_NNODES", "1"},
                                       {"SLURM_STEP_NUM_TASKS", "4"},
                                       {"SLURM_JOB_ID", "1"},
                                       {"SLURM_STEP_ID", "0"},
                                       {"MASTER_PORT", std::to_string(store.port)}}});
}

// At least the period of five seconds, and much less than the whole patience.
const std::string kSeconds = "([5-9]|1[0-9]) s";

// Waits until the worker has written a line in which this regular expression is found.
void wait_for_line(ChildProcess& worker, const std::string& pattern) {
  worker.wait_until([line = std::regex(pattern)](const ChildProcess& child) {
    return std::regex_search(child.err(), line);
  });
}

std::size_t count_of(const std::string& text, const std::string& all) {
  std::size_t count = 0;
  for (std::size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) {
    ++count;
  }
  return count;
}

// The pid in the output "rank R ready, pid P".
pid_t pid_of(int rank, const std::string& output) {
  std::smatch match;
  const std::regex pattern("rank " + std::to_string(rank) + " ready, pid ([0-9]+)");
  return std::regex_search(output, match, pattern) ? std::stoi(match[1]) : 0;
}

}  // namespace

TEST_CASE("a late rank, or a late or lost store, is named every five seconds", "[start]") {
  const TcpServer server({"127.0.0.1", 0});
  const Endpoint own = free_endpoint();
  ChildProcess early0 = worker(0, 3, server.endpoint(), true);
  ChildProcess early1 = worker(1, 3, server.endpoint(), true);
  ChildProcess alone = worker(1, 2, own, false);
  const Endpoint short_lived = free_endpoint();
  ChildProcess mortal = worker(0, 3, short_lived, false);
  ChildProcess survivor = worker(1, 3, short_lived, false);
  ChildProcess task = task_of_srun(free_endpoint());

  wait_for_line(early0, "2 of 3 ranks are here after " + kSeconds + "; missing: rank 2; store at " +
                            to_string(server.endpoint()));
  CHECK_THAT(early0.err(), Contains("[ddp] warning: [rank 0] "));
  ChildProcess late = worker(2, 3, server.endpoint(), true);
  for (ChildProcess* each : {&early0, &early1, &late}) CHECK(each->wait() == 0);
  CHECK(early1.err().empty());

  wait_for_line(alone, "no answer from the store at " + to_string(own) + " after " + kSeconds);
  ChildProcess host = worker(0, 2, own, false);
  CHECK(host.wait() == 0);
  CHECK(alone.wait() == 0);

  wait_for_line(task, "1 of 4 ranks are here after " + kSeconds +
                          "; missing: ranks 1-3; .*; srun " +
                          "started 4 processes .*; for a single one set SLURM_STEP_NUM_TASKS=1");
  task.send_signal(SIGKILL);

  wait_for_line(mortal, "2 of 3 ranks are here after " + kSeconds + "; missing: rank 2");
  mortal.send_signal(SIGKILL);
  CHECK(survivor.wait(kBound) == 3);
  CHECK_THAT(survivor.err(),
             Contains("[init] rank 1 has lost the store at " + to_string(short_lived)));
}

// The last job's store may close before such a rank has met anybody, or while it registers itself.
TEST_CASE("a rank that comes while the last job's store is still there waits for its own job's",
          "[start]") {
  const std::string key = GENERATE("init/", "rank/");  // written after registration, and for it
  CAPTURE(key);
  std::optional<TcpServer> last(std::in_place, Endpoint{"127.0.0.1", 0});
  const Endpoint store = last->endpoint();
  {
    std::array<ChildProcess, 4> ended{worker(0, 4, store, true), worker(1, 4, store, true),
                                      worker(2, 4, store, true), worker(3, 4, store, true)};
    for (ChildProcess& each : ended) REQUIRE(each.wait() == 0);
  }
  TcpStore watcher(store, 20s);
  const auto value = [&](int rank) {
    return watcher.get("ddp/none/attempt_0/" + key + std::to_string(rank));
  };
  const std::array<std::string, 3> before{value(1), value(2), value(3)};
  std::array<ChildProcess, 3> early{worker(1, 4, store, false), worker(2, 4, store, false),
                                    worker(3, 4, store, false)};
  const Deadline deadline = Deadline::after(20s);
  for (int rank = 1; rank < 4; ++rank) {
    while (value(rank) == before[static_cast<std::size_t>(rank - 1)]) {
      REQUIRE_FALSE(deadline.passed());
    }
  }
  last.reset();
  ChildProcess host = worker(0, 4, store, false);
  CHECK(host.wait() == 0);
  for (ChildProcess& each : early) {
    CHECK(each.wait() == 0);
    CHECK(each.err() == "");
  }
}

TEST_CASE("two processes with the same RANK both report it at once", "[start]") {
  const TcpServer server({"127.0.0.1", 0});
  ChildProcess one = worker(0, 2, server.endpoint(), true);
  ChildProcess other = worker(0, 2, server.endpoint(), true);
  for (ChildProcess* each : {&one, &other}) {
    CHECK(each->wait(kBound) == 3);
    CHECK_THAT(each->err(), Contains("rank 0 is already pid ") &&
                                Contains("pid " + std::to_string(one.pid()) + " on host ") &&
                                Contains("pid " + std::to_string(other.pid()) + " on host "));
  }
}

TEST_CASE("a second rank 0 that tries to host the store gets an error about the first", "[start]") {
  const Endpoint endpoint = free_endpoint();
  ChildProcess first = worker(0, 2, endpoint, false);
  const TcpStore listens(endpoint, 20s);
  ChildProcess second = worker(0, 2, endpoint, false);
  CHECK(second.wait(kBound) == 3);
  CHECK_THAT(second.err(), Contains("MASTER_PORT is taken: by another rank 0 of this job"));
  ChildProcess client = worker(1, 2, endpoint, false);
  CHECK(client.wait() == 0);
  CHECK(first.wait() == 0);
}

TEST_CASE("only a process that comes with a rank of a running job is refused", "[start]") {
  test::Job job(2, "loop", "shm", "patient");  // no warning of a late rank
  job.wait_until_ready();
  ChildProcess second = worker(1, 2, job.store(), true);
  CHECK(second.wait(kBound) == 3);
  CHECK_THAT(second.err(), Contains("rank 1 is already pid " + std::to_string(job[1].pid())));
  CHECK(job[0].err().empty());
}

TEST_CASE("a rank with another WORLD_SIZE ends the start on all ranks", "[start]") {
  const TcpServer server({"127.0.0.1", 0});
  ChildProcess one = worker(0, 3, server.endpoint(), true);
  ChildProcess other = worker(1, 2, server.endpoint(), true);
  for (ChildProcess* each : {&one, &other}) {
    CHECK(each->wait(kBound) == 3);
    CHECK_THAT(each->err(), Contains("ranks differ in WORLD_SIZE: rank ") && Contains(" has 3") &&
                                Contains(" has 2"));
  }
}

TEST_CASE("DDP_TIMEOUT makes a job with a stopped rank start again", "[start]") {
  ChildProcess job({DDP_LAUNCH_PATH, "-n", "2", "--max_restarts=1", "--show=all",
                    DDP_COLLECTIVE_WORKER_PATH, "loop", "shm", "patient"},
                   {.environment = {{"DDP_TIMEOUT", "3.5"}}});
  const auto have_started = [](std::size_t count) {
    return [count](const ChildProcess& child) {
      return count_of(" ready, pid ", child.out()) >= count;
    };
  };
  job.wait_until(have_started(2));
  const pid_t stopped = pid_of(1, job.out());
  REQUIRE(stopped > 0);
  ::kill(stopped, SIGSTOP);
  job.wait_until(have_started(4));
  CHECK_THAT(job.err(), Contains("timed out after 3500 ms") && Contains("restart 1 of 1"));
  job.send_signal(SIGTERM);
  CHECK(job.wait() == 143);
}

// The launcher hosts the store, which the program did not say.
TEST_CASE("a program may pass on what the launcher told it", "[start]") {
  ChildProcess job({DDP_LAUNCH_PATH, "-n", "2", DDP_COLLECTIVE_WORKER_PATH, "sum-placed", "shm"});
  CHECK(job.wait() == 0);
  CHECK_THAT(job.out(), Contains("sum 2"));
}

TEST_CASE("a process may create its group again, also if rank 0 hosts the store", "[rendezvous]") {
  for (int round = 0; round < 3; ++round) {
    const Endpoint store = free_endpoint();
    std::array<ChildProcess, 2> ranks{worker(0, 2, store, false, "again"),
                                      worker(1, 2, store, false, "again")};
    for (ChildProcess& rank : ranks) {
      CHECK(rank.wait(60s) == 0);
      CHECK(rank.out() == "sum 12\n");
      CHECK(rank.err().empty());
    }
  }
}
