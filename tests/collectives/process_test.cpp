// SPDX-License-Identifier: MIT
//
// How a job of real processes ends if ranks are killed, leave, or were started wrongly.
#include <signal.h>
#include <catch2/catch.hpp>

#include <thread>
#include <vector>

#include "ddp/collectives/peers/rank_identity.h"
#include "ddp/store/tcp_server.h"
#include "support/child_process.h"
#include "support/free_endpoint.h"
#include "support/job.h"
#include "support/sanitizers.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::ChildProcess;
using test::Environment;
using test::Job;

namespace {

constexpr Timeout kFiveSeconds = 5s;  // five times the promise
constexpr Timeout kNoHang = 5 * 2s;   // five times the two seconds in which all ranks end

// How often to leave, since it is a race. 200 rounds with shm take four seconds, but several times
// as long with a sanitizer.
int rounds_with(const std::string& backend) {
  if (backend != "shm") return 10;
  return test::kIsSanitized ? 20 : 200;
}

void check_one_line_failure(const Environment& environment, const std::string& expected) {
  const auto begin = Clock::now();
  ChildProcess worker({DDP_COLLECTIVE_WORKER_PATH, "sum"}, {.environment = environment});
  CHECK(worker.wait(kFiveSeconds) == 3);
  CHECK(Clock::now() - begin < kFiveSeconds);
  CHECK(test::lines_of(worker.err()).size() == 1);
  CHECK_THAT(worker.err(), Catch::Contains(expected));
}

bool stops_itself(pid_t pid) {
  const RankIdentity process{.host = host_identity(), .pid = pid};
  const Deadline deadline = Deadline::after(60s);
  while (state_of(process) != ProcessState::kStopped && !deadline.passed()) {
    std::this_thread::sleep_for(10ms);
  }
  return state_of(process) == ProcessState::kStopped;
}

// Whether a rank has begun to communicate before it ended like this.
bool is_ready(const std::string& end) { return end.find("ready, pid") != std::string::npos; }

}  // namespace

TEST_CASE("processes meet and reduce", "[process]") {
  Job job(3, "sum", "auto", "patient");
  for (int rank = 0; rank < job.size(); ++rank) CHECK(job[rank].wait() == 0);
  CHECK_THAT(job[0].out(), Catch::Contains("sum 3\n"));
}

TEST_CASE("ranks whose main threads have ended meet and reduce", "[process]") {
  Job job(3, "without-main-thread", "auto", "patient");
  for (int rank = 0; rank < job.size(); ++rank) CHECK(job[rank].wait() == 0);
  CHECK_THAT(job[0].out(), Catch::Contains("sum 3\n"));
}

TEST_CASE("the ranks that survive a kill name the dead one", "[process]") {
  for (const std::string& backend : test::cpu_backends()) {
    for (const int victim : {0, 1, 2}) {
      Job job(3, "loop", backend, "patient");
      job.wait_until_ready();
      const std::string pid = "pid " + std::to_string(job[victim].pid());
      const std::string name = "[" + backend + "] rank " + std::to_string(victim) + " (";
      job[victim].send_signal(SIGKILL);
      for (int rank = 0; rank < job.size(); ++rank) {
        const int code = job[rank].wait(kFiveSeconds);
        if (rank == victim) continue;
        CHECK(code == 3);
        CHECK_THAT(job[rank].err(), Catch::Contains(name) && Catch::Contains(pid) &&
                                        Catch::Contains("died, while rank"));
      }
    }
  }
}

TEST_CASE("a rank that dies with the store that it hosts is named by its number", "[process]") {
  const std::string port = std::to_string(test::free_endpoint().port);
  const auto worker = [&](const std::string& rank) {
    return ChildProcess({DDP_COLLECTIVE_WORKER_PATH, "loop", "tcp"},
                        {.environment = {{"RANK", rank},
                                         {"LOCAL_RANK", rank},
                                         {"WORLD_SIZE", "2"},
                                         {"LOCAL_WORLD_SIZE", "2"},
                                         {"MASTER_ADDR", "127.0.0.1"},
                                         {"MASTER_PORT", port}}});
  };
  ChildProcess host = worker("0");
  ChildProcess other = worker("1");
  host.wait_for_output("ready, pid");
  other.wait_for_output("ready, pid");
  host.send_signal(SIGKILL);
  CHECK(other.wait(kFiveSeconds) == 3);
  CHECK_THAT(other.err(), Catch::Contains("[tcp] rank 1 has lost the connection to rank 0 in #") ||
                              Catch::Contains("[tcp] rank 0 ("));
}

TEST_CASE("in a group that was split off, too, ranks are named by their numbers in the job",
          "[process]") {
  for (const std::string& backend : test::cpu_backends()) {
    Job job(3, "loop-part", backend, "patient");
    for (const int rank : {1, 2}) job[rank].wait_for_output("rank " + std::to_string(rank - 1));
    const std::string pid = "pid " + std::to_string(job[2].pid());
    job[2].send_signal(SIGKILL);
    CHECK(job[1].wait(kFiveSeconds) == 3);
    CHECK_THAT(job[1].err(), Catch::Contains("[" + backend + "] rank 2 (") &&
                                 Catch::Contains(pid) &&
                                 Catch::Contains("died, while rank 1 is in #") &&
                                 Catch::Contains(" of group default/split0/color1"));
  }
}

TEST_CASE("the death of a rank that was sent half a message is noticed", "[process]") {
  for (const std::string& backend : test::cpu_backends()) {
    INFO(backend);
    constexpr int kAttempts = 20;
    bool is_half = false;
    for (int attempt = 0; attempt < kAttempts && !is_half; ++attempt) {
      Job job(2, "send-stop", backend, "patient");
      REQUIRE(stops_itself(job[1].pid()));
      std::this_thread::sleep_for(200ms);  // until the message has stopped moving
      job[1].send_signal(SIGKILL);
      (void)job[1].wait(kFiveSeconds);
      // On a busy machine the message may be there before the rank has stopped itself.
      is_half = job[1].out().find("too late") == std::string::npos;
      if (!is_half) continue;
      CHECK(job[0].wait(2 * kFiveSeconds) == 3);
      CHECK_THAT(job[0].err(), Catch::Contains("[" + backend + "] rank 1 (") &&
                                   Catch::Contains("died, while rank 0 is in #1 send("));
    }
    CHECK(is_half);
  }
}

TEST_CASE("the death of one of several peers of a batch of receives is noticed", "[process]") {
  for (const std::string& backend : test::cpu_backends()) {
    Job job(3, "batch", backend, "patient");
    job.wait_until_ready();
    std::this_thread::sleep_for(200ms);  // until rank 0 waits, for rank 1 first
    job[2].send_signal(SIGKILL);
    INFO(backend);
    CHECK(job[0].wait(kFiveSeconds) == 3);
    CHECK_THAT(job[0].err(), Catch::Contains("[" + backend + "] rank 2 (") &&
                                 Catch::Contains("died, while rank 0 is in #") &&
                                 Catch::Contains("recv(float32[1])"));
  }
}

TEST_CASE("leaving in the middle of a collective or a step causes no crash and no hang",
          "[process]") {
  const std::string mode = GENERATE(as<std::string>(), "exit", "return", "throw", "children",
                                    "step-exit", "step-return", "step-throw", "step-static");
  for (const std::string& backend : test::cpu_backends()) {
    for (int round = 0; round < rounds_with(backend); ++round) {
      Job job(2, mode, backend, "patient");
      const std::vector<std::string> ends = job.wait_all(kNoHang);
      INFO(backend << ", " << mode << ", round " << round << ": " << ends[0] << "; " << ends[1]);
      REQUIRE((is_ready(ends[0]) || is_ready(ends[1])));
      for (const std::string& end : ends) {
        REQUIRE((end.starts_with("0, ") || end.starts_with("3, ")));
      }
    }
  }
}

TEST_CASE("an exception that nobody catches ends the process at once, with its text", "[process]") {
  const std::string mode = GENERATE(as<std::string>(), "uncaught", "step-uncaught");
  for (const std::string& backend : test::cpu_backends()) {
    for (int round = 0; round < rounds_with(backend); ++round) {
      Job job(2, mode, backend, "patient");
      for (int rank = 0; rank < job.size(); ++rank) {
        const int code = job[rank].wait(kNoHang);
        INFO(backend << ", " << mode << ", round " << round << ", rank " << rank << ": "
                     << job[rank].err());
        if (code == 3) continue;  // the other rank's end came first
        REQUIRE(code == 128 + SIGABRT);
        REQUIRE_THAT(job[rank].err(), Catch::Contains("what():  thrown on purpose"));
      }
    }
  }
}

TEST_CASE("ranks that call different things all tell both calls", "[process]") {
  const std::string own = "rank 0 called #2 all_reduce(float32[100003], sum), rank 2 called #2 ";
  for (const std::string& backend : test::cpu_backends()) {
    for (const auto& [mode, other] : {std::pair("kind", "broadcast(float32[100003]"),
                                      std::pair("count", "all_reduce(float32[100002], sum)"),
                                      std::pair("dtype", "all_reduce(int32[100003], sum)")}) {
      Job job(3, mode, backend, "patient");
      job.wait_until_ready();
      for (int rank = 0; rank < job.size(); ++rank) job[rank].write_stdin("\n");
      const std::vector<std::string> ends = job.wait_all(kNoHang);
      for (const std::string& end : ends) {
        CAPTURE(backend, mode);
        CHECK_THAT(end, Catch::StartsWith("3, ") && Catch::Contains(own + other));
      }
    }
  }
}

TEST_CASE("a rank that leaves while others still communicate is named", "[process]") {
  for (int round = 0; round < 20; ++round) {
    const std::string backend = test::cpu_backends()[round % test::cpu_backends().size()];
    Job job(3, "early", backend);
    CHECK(job[0].wait(kFiveSeconds) == 0);
    const std::string pid = "pid " + std::to_string(job[0].pid());
    for (const int rank : {1, 2}) {
      INFO(backend << ", round " << round << ", rank " << rank);
      CHECK(job[rank].wait(kFiveSeconds) == 3);
      CHECK_THAT(job[rank].err(), Catch::Contains("[" + backend + "] rank 0 (") &&
                                      Catch::Contains(pid) && Catch::Contains("left the group"));
    }
  }
}

TEST_CASE("ranks that have finished may leave while others still work", "[process]") {
  for (int round = 0; round < 40; ++round) {
    Job job(6, "sum", "auto", "patient");
    for (int rank = 0; rank < job.size(); ++rank) {
      const int code = job[rank].wait();
      INFO("round " << round << ", rank " << rank << ": " << job[rank].err());
      REQUIRE(code == 0);
    }
  }
}

TEST_CASE("a thread may log while its process exits", "[process]") {
  const int rounds = test::kIsSanitized ? 20 : 100;
  for (int round = 0; round < rounds; ++round) {
    ChildProcess worker({DDP_COLLECTIVE_WORKER_PATH, "log"});
    REQUIRE(worker.wait(kFiveSeconds) == 0);
  }
}

TEST_CASE("a wrong environment gives one line that names variable and value", "[process]") {
  check_one_line_failure(
      {{"RANK", "5"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}},
      "RANK=5 must be below WORLD_SIZE=2");
  check_one_line_failure({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "MASTER_ADDR, MASTER_PORT not set");
  check_one_line_failure({{"OMPI_COMM_WORLD_SIZE", "2"}},
                         "mpirun started 2 processes, but OMPI_COMM_WORLD_RANK is not set");
  check_one_line_failure({{"SLURM_NTASKS", "4"}}, "SLURM_NTASKS=4");
  check_one_line_failure({{"PMI_SIZE", "2"}}, "PMI_SIZE=2");
}

TEST_CASE("rank 0 reports that the store's address belongs to another host", "[process]") {
  check_one_line_failure({{"RANK", "0"},
                          {"WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "203.0.113.7"},
                          {"MASTER_PORT", "29500"}},
                         "MASTER_ADDR is not an address of its host");
}

TEST_CASE("rank 0 reports that the store's port is taken", "[process]") {
  const TcpServer taken({"127.0.0.1", 0});
  check_one_line_failure({{"RANK", "0"},
                          {"WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", std::to_string(taken.endpoint().port)}},
                         "cannot listen on " + to_string(taken.endpoint()));
}

TEST_CASE("a program started alone is a world of one", "[process]") {
  ChildProcess worker({DDP_COLLECTIVE_WORKER_PATH, "sum"});
  CHECK(worker.wait() == 0);
  CHECK_THAT(worker.out(), Catch::Contains("sum 1\n"));
}
