// SPDX-License-Identifier: MIT
//
// These tests fork real processes, which works because this program leaves no threads behind.
#include "ddp/collectives/spawn.h"
#include "ddp/base/net/socket.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/system/cpu_count.h"
#include "ddp/base/system/process_status.h"
#include "ddp/collectives/init.h"
#include "ddp/collectives/on_rank0.h"
#include "ddp/collectives/start/absent_ranks.h"
#include "launcher/plan/environment.h"
#include "support/becomes_true.h"
#include "support/child_process.h"
#include "support/files.h"
#include "support/in_child.h"
#include "support/own_network.h"
#include "support/run_ranks.h"

namespace {

using namespace ddp;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Catch::Matchers::Matches;
using test::error_of;
using test::TemporaryDirectory;

std::shared_ptr<ProcessGroup> meet() { return init_process_group({.device = DeviceChoice::kCpu}); }

// The error message of spawn(). SIGTERM's default action is restored in the ranks; otherwise
// Catch2's handler would report a stopped rank as a failed test, even if the signal comes before
// the rank has begun.
std::string spawn_error(int nprocs, const std::function<void(int)>& fn) {
  const auto handler_of_catch = ::signal(SIGTERM, SIG_DFL);
  std::string text;
  try {
    spawn(fn, nprocs);
  } catch (const Error& error) {
    text = describe(error);
  }
  ::signal(SIGTERM, handler_of_catch);
  return text;
}

// Waits for a signal to end this rank, but not forever.
void wait_for_signal() {
  ::alarm(60);
  for (;;) ::pause();
}

// A pipe that outlives forks.
struct Pipe {
  Pipe() {
    int fds[2];
    REQUIRE(::pipe(fds) == 0);
    read_end = FileDescriptor(fds[0]);
    write_end = FileDescriptor(fds[1]);
  }

  [[nodiscard]] pid_t receive() const {
    pollfd entry{read_end.get(), POLLIN, 0};
    REQUIRE(::poll(&entry, 1, 20000) == 1);
    pid_t pid = 0;
    REQUIRE(::read(read_end.get(), &pid, sizeof(pid)) == static_cast<ssize_t>(sizeof(pid)));
    return pid;
  }

  void send(pid_t pid) const {
    test::expect(::write(write_end.get(), &pid, sizeof(pid)) == static_cast<ssize_t>(sizeof(pid)),
                 "a pid goes through the pipe");
  }

  FileDescriptor read_end;
  FileDescriptor write_end;
};

}  // namespace

TEST_CASE("spawned ranks find each other, again and again", "[spawn]") {
  const TemporaryDirectory directory;
  for (const int nprocs : {1, 2, 4, 2}) {
    CAPTURE(nprocs);
    spawn(
        [&](int rank) {
          const auto group = meet();
          test::expect(group->rank() == rank, "the rank");
          double value = rank + 1;
          group->all_reduce({&value, 1, DType::kFloat64}).wait();
          test::write_bytes(directory / std::to_string(rank), std::to_string(value));
        },
        nprocs);
    for (int rank = 0; rank < nprocs; ++rank) {
      const auto file = directory / std::to_string(rank);
      CHECK(std::stod(test::bytes_of(file)) == nprocs * (nprocs + 1) / 2);
      std::filesystem::remove(file);
    }
  }
}

TEST_CASE("ranks meet on a host that has only IPv6's loopback address", "[spawn]") {
  test::check_in_child([] {
    if (!test::enter_own_network() || !test::bring_up_ipv6_loopback()) {
      return test::Verdict::kImpossible;
    }
    const auto listen_on = [](const char* host) {
      return error_of([&] { static_cast<void>(Socket::listen({host, 0})); });
    };
    if (listen_on("127.0.0.1").empty() || !listen_on("::1").empty()) {
      return test::Verdict::kImpossible;
    }
    const std::string error = spawn_error(2, [](int) { meet()->barrier().wait(); });
    std::fputs(error.c_str(), stderr);
    return error.empty() ? test::Verdict::kGood : test::Verdict::kBad;
  });
}

TEST_CASE("whoever waits in on_rank0 for a rank 0 that has died learns of it", "[spawn]") {
  const TemporaryDirectory directory;
  spawn(
      [&](int rank) {
        const auto group = init_process_group({.device = DeviceChoice::kCpu, .timeout = 20s});
        group->barrier().wait();
        if (rank == 0) ::_exit(0);
        test::write_bytes(directory / "error", error_of([&] { on_rank0(*group, [] {}); }));
      },
      2);
  CHECK_THAT(test::bytes_of(directory / "error"),
             Matches("\\[shm\\] rank 0 \\(pid [0-9]+\\) died, while rank 1 waits for it"));
}

TEST_CASE("a process that ignores SIGCHLD still learns how its ranks ended", "[spawn]") {
  ::signal(SIGCHLD, SIG_IGN);
  const std::string good = spawn_error(2, [](int) {});
  const std::string bad = spawn_error(2, [](int rank) {
    if (rank == 1) ::_exit(3);
    wait_for_signal();
  });
  CHECK(::signal(SIGCHLD, SIG_DFL) == SIG_IGN);
  CHECK(good.empty());
  CHECK_THAT(bad, Contains("rank 1") && Contains("exited with code 3"));
}

TEST_CASE("a process that discards ended children still learns how its ranks ended", "[spawn]") {
  struct sigaction discarding {};
  discarding.sa_handler = SIG_DFL;
  discarding.sa_flags = SA_NOCLDWAIT;
  ::sigaction(SIGCHLD, &discarding, nullptr);
  const std::string error = spawn_error(2, [](int rank) {
    if (rank == 1) ::_exit(3);
    wait_for_signal();
  });
  struct sigaction after {};
  ::sigaction(SIGCHLD, nullptr, &after);
  ::signal(SIGCHLD, SIG_DFL);
  CHECK((after.sa_flags & SA_NOCLDWAIT) != 0);
  CHECK_THAT(error, Contains("rank 1") && Contains("exited with code 3"));
}

TEST_CASE("what a rank writes to std::cout appears exactly once", "[spawn]") {
  const TemporaryDirectory directory;
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (std::freopen((directory / "out").c_str(), "w", stdout) == nullptr) ::_exit(1);
    std::ios::sync_with_stdio(false);
    std::cout << "parent,";
    spawn([](int) { std::cout << "rank,"; }, 2);
    std::cout.flush();
    ::_exit(0);
  }
  ::waitpid(pid, nullptr, 0);
  CHECK(test::bytes_of(directory / "out") == "parent,rank,rank,");
}

TEST_CASE("spawned ranks have the environment of ddp-launch's workers", "[spawn]") {
  launcher::WorkerPlan plan;
  plan.usable_cpus = usable_cpus();
  launcher::JobLayout layout;
  layout.world_size = layout.local_world_size = 2;
  layout.store = {"127.0.0.1", 1};
  const TemporaryDirectory directory;
  spawn(
      [&](int rank) {
        std::string different;
        for (const std::string& entry : launcher::worker_environment(plan, layout, {}, rank)) {
          const std::string name = entry.substr(0, entry.find('='));
          const char* value = std::getenv(name.c_str());
          if (value == nullptr || name + "=" + value != entry) different += name + " ";
        }
        test::write_bytes(directory / std::to_string(rank), different);
      },
      2);
  for (int rank = 0; rank < 2; ++rank) {
    // These variables belong to the job.
    CHECK_THAT(test::bytes_of(directory / std::to_string(rank)),
               Equals("MASTER_PORT TORCHELASTIC_RUN_ID "));
  }
  CHECK(std::getenv("RANK") == nullptr);
}

TEST_CASE("spawn reports a rank's own exception with rank and pid, not its peers' errors",
          "[spawn]") {
  const std::string error = spawn_error(3, [](int rank) {
    const auto group = meet();
    if (rank == 1) {
      try {
        throw std::runtime_error("the loss is not finite");
      } catch (...) {
        std::throw_with_nested(std::runtime_error("step 7"));
      }
    }
    group->barrier().wait();
  });
  CHECK_THAT(error, Matches(R"(\[spawn\] rank 1 of 3 \(pid \d+\) threw: step 7: the )"
                            "loss is not finite"));
}

TEST_CASE("spawn reports a rank's exit code or signal", "[spawn]") {
  CHECK_THAT(spawn_error(2,
                         [](int rank) {
                           if (rank == 0) ::_exit(3);
                         }),
             Matches(R"(\[spawn\] rank 0 of 2 \(pid \d+\) exited with code 3)"));
  CHECK_THAT(spawn_error(2,
                         [](int rank) {
                           if (rank == 1) ::raise(SIGKILL);
                         }),
             Matches(R"(\[spawn\] rank 1 of 2 \(pid \d+\) was killed by SIGKILL)"));
  CHECK_THAT(spawn_error(1, [](int) { throw 42; }), Contains(" threw: unknown error"));
  const std::string long_text(100000, 'x');
  CHECK_THAT(spawn_error(1, [&](int) { throw std::runtime_error(long_text); }),
             Contains(long_text.substr(0, 30000)));
}

TEST_CASE("ranks that wait for one that has returned are told so, long before their timeout",
          "[spawn]") {
  const int ended = GENERATE(0, 1, 2);
  const int together = GENERATE(0, 1);  // initialisations of all ranks before that
  const auto begin = Clock::now();
  const std::string error = spawn_error(3, [&](int rank) {
    const int own = together + (rank == ended ? 0 : 1);
    for (int i = 0; i < own; ++i) meet()->barrier().wait();
  });
  CAPTURE(ended, together);
  CHECK_THAT(error, Matches(R"(\[spawn\] rank \d of 3 \(pid \d+\) threw: \[init\] rank )" +
                            std::to_string(ended) +
                            R"( \(pid \d+\) has ended with code 0 and will not come to this )"
                            "init_process_group, which all 3 ranks must call"));
  CHECK(Clock::now() - begin < 20s);
}

TEST_CASE("the first to wait may come long after the end of the one that it waits for", "[spawn]") {
  const Pipe pids;
  const std::string error = spawn_error(2, [&](int rank) {
    if (rank == 1) return pids.send(::getpid());
    const pid_t other = pids.receive();
    test::expect(test::becomes_true([&] { return !read_process(other); }), "rank 1 was reaped");
    meet();
  });
  CHECK_THAT(error, Contains("[init] rank 1 (pid ") && Contains("has ended with code 0"));
}

TEST_CASE("a rank may end without joining a world that the others form without it", "[spawn]") {
  const Pipe pids;
  CHECK(spawn_error(3, [&](int rank) {
          if (rank == 2) return pids.send(::getpid());
          ::setenv("WORLD_SIZE", "2", 1);
          ::setenv("LOCAL_WORLD_SIZE", "2", 1);
          if (rank == 0) {
            const pid_t other = pids.receive();
            test::expect(test::becomes_true([&] { return !read_process(other); }),
                         "rank 2 is gone");
            std::this_thread::sleep_for(2 * AbsentRanks::kPeriod);  // while rank 1 waits
          }
          meet()->barrier().wait();
        }).empty());
}

TEST_CASE("a rank that is stopped is not the cause, even if the first failure blames a peer",
          "[spawn]") {
  const std::string error = spawn_error(2, [](int rank) {
    if (rank == 0) throw PeerError("rank 1 does not answer");
    wait_for_signal();
  });
  CHECK_THAT(error, Contains("rank 0 of 2") && Contains(" threw: rank 1 does not answer"));
}

TEST_CASE("of several failures that blame a peer the first one is reported", "[spawn]") {
  const Pipe pids;
  const std::string error = spawn_error(3, [&pids](int rank) {
    if (rank == 2) wait_for_signal();
    if (rank == 1) pids.send(::getpid());
    if (rank == 0) {
      const pid_t first = pids.receive();
      test::expect(test::becomes_true([&] { return !read_process(first); }), "rank 1 has failed");
    }
    throw PeerError("rank 2 does not answer");
  });
  CHECK_THAT(error, Contains("rank 1 of 3") && Contains(" threw: rank 2 does not answer"));
}

TEST_CASE("the other ranks are stopped, even those that take no SIGTERM", "[spawn]") {
  const Pipe pids;
  const auto begin = Clock::now();
  const std::string error = spawn_error(3, [&](int rank) {
    if (rank == 0) ::signal(SIGTERM, SIG_IGN);
    pids.send(::getpid());
    if (rank < 2) wait_for_signal();
    for (int i = 0; i < 3; ++i) test::expect(pids.receive() > 0, "everybody is there");
    throw std::runtime_error("enough");
  });
  CHECK_THAT(error, Contains("rank 2 of 3") && Contains(" threw: enough"));
  CHECK(Clock::now() - begin > 1900ms);
  CHECK(Clock::now() - begin < 10s);
}

TEST_CASE("spawned ranks die with their parent", "[spawn]") {
  const Pipe pids;
  const pid_t parent = ::fork();
  if (parent == 0) {
    (void)error_of([&] {
      spawn(
          [&](int) {
            pids.send(::getpid());
            wait_for_signal();
          },
          2);
    });
    ::_exit(1);
  }
  const pid_t children[] = {pids.receive(), pids.receive()};
  REQUIRE(::kill(parent, SIGKILL) == 0);
  REQUIRE(::waitpid(parent, nullptr, 0) == parent);
  for (const pid_t child : children) CHECK(test::wait_until_gone(child, 10s));
}

TEST_CASE("a world without ranks is refused", "[spawn]") {
  CHECK(error_of([] { spawn([](int) {}, 0); }) == "[spawn] nprocs is 0, below 1");
}
