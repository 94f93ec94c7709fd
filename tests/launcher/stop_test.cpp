// SPDX-License-Identifier: MIT
//
// Tests how the built ddp-launch distinguishes a clean stop from a failed one.
#include <sys/resource.h>
#include <sys/time.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "support/files.h"
#include "support/free_endpoint.h"
#include "support/launch.h"

using Catch::Matchers::Contains;
using Catch::Matchers::Matches;
using ddp::test::ChildProcess;
using ddp::test::TemporaryDirectory;
using namespace ddp::test::launch;

namespace {

// Prints its pid, and runs until a signal ends it.
const std::string kWait = "; echo pid=$$. >&2; while :; do sleep 0.01; done";

// The result of sending the launcher a signal when all workers run this script.
Result stop(const Strings& flags, const std::string& script, std::size_t workers,
            int signal_number = SIGTERM) {
  ChildProcess child(shell(flags, script + kWait));
  const std::vector<pid_t> pids = wait_for_pids(child, workers);
  child.send_signal(signal_number);
  const int exit_code = child.wait(kStopBound);
  check_all_gone(pids);
  return {exit_code, child.out(), child.err()};
}

}  // namespace

TEST_CASE("the verdict names a worker that fails while it is stopped", "[stop]") {
  const int signal_number = GENERATE(SIGTERM, SIGINT, SIGHUP);
  const Result result = stop({"-n", "3", "--max_restarts", "2"},
                             "trap '[ $RANK = 1 ] && exit 9; exit 0' TERM", 3, signal_number);
  CHECK(result.exit_code == 9);
  CHECK_THAT(result.err, !Contains("restart 1 of 2"));
  CHECK_THAT(
      last_line(result.err),
      Matches("ddp-launch: rank 1 \\([^,]+, pid [0-9]+\\) exited with code 9 after [0-9.]+ s, "
              "when asked to stop"));
}

TEST_CASE("a line says which process keeps the launcher when all workers have ended", "[stop]") {
  ChildProcess child(shell({"-n", "1", "--grace", "4"},
                           "(trap '' TERM; echo ready >&2; while :; do sleep 0.1; done) & "
                           "exec sleep 50"));
  child.wait_for_output("ready");
  child.send_signal(SIGTERM);
  CHECK(child.wait(kStopBound) == 143);
  CHECK_THAT(child.err(),
             Contains("ddp-launch: the ranks have ended, but not all that they started: "
                      "pid ") &&
                 Contains("; what still runs in ") && Contains(" s is killed\n"));
}

TEST_CASE("a stopped worker is named when the others have ended", "[stop]") {
  ChildProcess child(shell({"-n", "3", "--grace", "1"}, "[ $RANK = 1 ] && kill -STOP $$; exit 0"));
  const std::string line = "ddp-launch: ranks 0, 2 have ended, but rank 1 is stopped (SIGSTOP): ";
  child.wait_for_output(line + "kill -CONT ");
  child.wait_for_output(" continues it\n");
  const std::string pid = child.err().substr(child.err().find("kill -CONT ") + 11);
  REQUIRE(::kill(std::stoi(pid), SIGCONT) == 0);
  CHECK(child.wait(kStopBound) == 0);
}

TEST_CASE("a worker that fails while it is stopped is reported with its record and last lines",
          "[stop]") {
  const TemporaryDirectory folder;
  const std::string script =
      "[ $RANK = 0 ] || trap 'echo No space left on device >&2; "
      "echo \"{\\\"message\\\": \\\"cannot save\\\"}\" >$TORCHELASTIC_ERROR_FILE; exit 1' TERM; "
      "touch \"$0/$RANK\"; until [ -e \"$0/1\" ]; do sleep 0.01; done" +
      kWait;
  ChildProcess child(
      command({"-n", "2", "--show", "0", "--", "sh", "-c", script, folder.path().string()}));
  wait_for_pids(child, 1);
  child.send_signal(SIGTERM);
  CHECK(child.wait(kStopBound) == 1);
  CHECK_THAT(child.err(), Contains("last stderr lines of rank 1:\n") &&
                              Contains("\n  No space left on device\n"));
  CHECK_THAT(last_line(child.err()),
             Contains("rank 1 (") && Contains("exited with code 1") && Contains(": cannot save"));
}

TEST_CASE("the verdict names a worker that crashes while it is stopped", "[stop]") {
  const auto [name, signal_number] =
      GENERATE(std::pair("SEGV", SIGSEGV), std::pair("KILL", SIGKILL));
  const Result result =
      stop({"-n", "2"},
           "trap '[ $RANK = 1 ] && kill -" + std::string(name) + " $$; sleep 0.2; exit 3' TERM", 2);
  CHECK(result.exit_code == 128 + signal_number);
  CHECK_THAT(last_line(result.err), Contains("rank 1 (") &&
                                        Contains("was killed by SIG" + std::string(name)) &&
                                        !Contains("stopped because of it"));
}

TEST_CASE("workers that end when asked to have not failed", "[stop]") {
  const std::string way = GENERATE("true", "trap 'exit 0' TERM", "trap 'exit 143' TERM");
  CAPTURE(way);
  const Result result = stop({"-n", "2"}, way, 2);
  CHECK(result.exit_code == 128 + SIGTERM);
  CHECK_THAT(
      result.err,
      Contains("ddp-launch: SIGTERM: stopping 2 ranks, which have 30 s (--grace) to end\n") &&
          !Contains("ddp-launch: rank"));
}

TEST_CASE("a worker that ends with 143 after SIGUSR1, as a launcher does, has not failed",
          "[stop]") {
  const Result result = stop({"-n", "2"}, "trap 'exit 143' USR1", 2, SIGUSR1);
  CHECK(result.exit_code == 128 + SIGTERM);
  CHECK_THAT(result.err, !Contains("ddp-launch: rank"));
}

TEST_CASE("a worker that ends because a peer has obeyed has not failed", "[stop]") {
  const Result result =
      stop({"-n", "2"},
           "[ $RANK = 0 ] || trap 'echo \"{\\\"message\\\": {\\\"message\\\": \\\"lost rank 0\\\", "
           "\\\"extraInfo\\\": {\\\"caused_by_peer\\\": \\\"true\\\"}}}\" "
           ">$TORCHELASTIC_ERROR_FILE; exit 1' TERM",
           2);
  CHECK(result.exit_code == 128 + SIGTERM);
  CHECK_THAT(result.err, !Contains("exited with code"));
}

TEST_CASE("a signal to a child of a worker does not stop the job", "[stop]") {
  const Result result = run(command({DDP_COLLECTIVE_WORKER_PATH, "fork"}), kStopBound);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.err, !Contains("asked the job to stop"));
}

TEST_CASE("workers that are killed after the grace period are named", "[stop]") {
  const int signal_number = GENERATE(SIGTERM, SIGINT, SIGUSR1);
  const int exit_code = 128 + (signal_number == SIGINT ? SIGINT : SIGTERM);
  const Result one =
      stop({"-n", "2", "--grace", "3.5"}, "[ $RANK = 0 ] || trap '' TERM USR1", 2, signal_number);
  CHECK(one.exit_code == exit_code);
  CHECK(last_line(one.err) ==
        "ddp-launch: rank 1 had not ended after 3.5 s and was killed; give it longer with --grace "
        "SECONDS");
  const Result two =
      stop({"-n", "3", "--grace", "3.5"}, "[ $RANK = 1 ] || trap '' TERM USR1", 3, signal_number);
  CHECK(two.exit_code == exit_code);
  CHECK(last_line(two.err) ==
        "ddp-launch: ranks 0, 2 had not ended after 3.5 s and were killed; give them longer with "
        "--grace SECONDS");
}

// More time would not help it.
TEST_CASE("a worker that could not end because it was stopped is told from a slow one", "[stop]") {
  const Result result = stop({"-n", "3", "--grace", "3.5"},
                             "[ $RANK = 0 ] || trap '' TERM; "
                             "[ $RANK != 2 ] || { echo pid=$$. >&2; kill -STOP $$; }",
                             3);
  CHECK(result.exit_code == 128 + SIGTERM);
  CHECK_THAT(result.err, Contains("ddp-launch: rank 2 could not end, because it was stopped "
                                  "(SIGSTOP), and was killed\n"));
  CHECK(last_line(result.err) ==
        "ddp-launch: rank 1 had not ended after 3.5 s and was killed; give it longer with --grace "
        "SECONDS");
}

TEST_CASE("a failure is reported together with the killed workers", "[stop]") {
  const Result result =
      stop({"-n", "2", "--grace", "3.5"}, "trap '[ $RANK = 1 ] && exit 9' TERM", 2);
  CHECK(result.exit_code == 9);
  CHECK_THAT(result.err, Contains("rank 0 had not ended after 3.5 s and was killed; give it longer "
                                  "with --grace SECONDS\n"));
  CHECK_THAT(last_line(result.err), Contains("rank 1 (") && Contains("exited with code 9"));
}

// The shell is the worker, and gets the signal; its program saves.
TEST_CASE("after SIGUSR1, what a worker leaves behind has the whole grace", "[stop]") {
  const TemporaryDirectory folder;
  const std::string program =
      "trap 'sleep 3; touch \"$0/saved\"; exit 0' TERM; echo pid=$$. >&2; while :; do sleep "
      "0.01; done";
  ChildProcess child(command({"-n", "1", "--grace", "20", "--", "sh", "-c",
                              "sh -c \"$1\" \"$0\"; true", folder.path().string(), program}));
  const std::vector<pid_t> pids = wait_for_pids(child, 1);
  child.send_signal(SIGUSR1);
  CHECK(child.wait(kStopBound) == 128 + SIGTERM);
  check_all_gone(pids);
  CHECK(std::filesystem::exists(folder / "saved"));
}

TEST_CASE("after SIGUSR1, a rank that fails leaves the others the whole grace", "[stop]") {
  const TemporaryDirectory folder;
  const std::string script =
      "trap '' TERM; trap '[ $RANK = 1 ] && exit 9; sleep 4; touch \"$0/saved\"; exit 0' USR1" +
      kWait;
  ChildProcess child(
      command({"-n", "2", "--grace", "20", "--", "sh", "-c", script, folder.path().string()}));
  const std::vector<pid_t> pids = wait_for_pids(child, 2);
  child.send_signal(SIGUSR1);
  CHECK(child.wait(kStopBound) == 9);
  check_all_gone(pids);
  CHECK(std::filesystem::exists(folder / "saved"));
}

// As after ulimit -i 0: no signal with a value can be queued any more.
TEST_CASE("a signal is not lost if the user's signal queue is full", "[stop]") {
  ChildProcess child({"/bin/bash", "-c", "ulimit -i 0; exec \"$0\" \"$@\"", DDP_LAUNCH_PATH, "-n",
                      "1", "sh", "-c", ":" + kWait});
  const std::vector<pid_t> pids = wait_for_pids(child, 1);
  const int signal_number = GENERATE(SIGTERM, SIGINT);
  child.send_signal(signal_number);
  CHECK(child.wait(kStopBound) == 128 + SIGTERM);
  check_all_gone(pids);
}

// Rank 0 blames a peer, so the launcher waits a second before it stops rank 1. Rank 1 sees that
// rank 0 has been reaped, and then asks the launcher to let the job end by itself.
TEST_CASE("SIGUSR1 gives no more time to workers that a failure stops", "[stop]") {
  const TemporaryDirectory folder;
  const std::string script =
      "if [ $RANK = 0 ]; then echo '{\"message\": {\"message\": \"lost rank 1\", \"extraInfo\": "
      "{\"caused_by_peer\": \"true\"}}}' >$TORCHELASTIC_ERROR_FILE; echo $$ >\"$0/pid\"; "
      "until [ -e \"$0/ready\" ]; do sleep 0.01; done; exit 1; fi; "
      "trap '' TERM USR1; until [ -s \"$0/pid\" ]; do sleep 0.01; done; touch \"$0/ready\"; "
      "while kill -0 $(cat \"$0/pid\") 2>/dev/null; do sleep 0.01; done; kill -USR1 $PPID" +
      kWait;
  ChildProcess child(command({"-n", "2", "--", "sh", "-c", script, folder.path().string()}));
  CHECK(child.wait(kStopBound) == 1);
  CHECK_THAT(child.err(), Contains("lost rank 1") && !Contains("SIGUSR1: passed on"));
}

namespace {

// The CPU time of all processes that this one and its descendants have waited for.
std::chrono::microseconds cpu_time_of_children() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  timeval sum{};
  timeradd(&usage.ru_utime, &usage.ru_stime, &sum);
  return std::chrono::seconds(sum.tv_sec) + std::chrono::microseconds(sum.tv_usec);
}

}  // namespace

TEST_CASE("launchers of several nodes sleep while the workers have time to end", "[stop]") {
  const std::uint16_t port = ddp::test::free_endpoint().port;
  const auto before = cpu_time_of_children();
  const Strings argv = shell({"-n", "1", "--grace", "5"}, kStubborn);
  ChildProcess node0 = launch_node(0, port, argv);
  ChildProcess node1 = launch_node(1, port, argv);
  for (ChildProcess* node : {&node0, &node1}) wait_for_pids(*node, 2);
  node1.send_signal(SIGTERM);
  for (ChildProcess* node : {&node0, &node1}) {
    (void)node->wait(kStopBound);
    CHECK_THAT(node->err(), Contains("had not ended after 5 s"));
  }
  CAPTURE((cpu_time_of_children() - before).count());
  CHECK(cpu_time_of_children() - before < std::chrono::milliseconds(1500));
}
