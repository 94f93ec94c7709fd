// SPDX-License-Identifier: MIT
//
// Jobs that ddp-launch restarts.
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "launcher/nodes/worker_keys.h"
#include "support/child_process.h"
#include "support/files.h"

using Catch::Matchers::Contains;
using ddp::test::ChildProcess;
using ddp::test::lines_of;

namespace {

// ddp-launch -n 2 [flags] -- sh -c SCRIPT
ChildProcess launch(const std::vector<std::string>& flags, const std::string& script) {
  std::vector<std::string> argv = {DDP_LAUNCH_PATH, "-n", "2"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  argv.insert(argv.end(), {"--", "sh", "-c", script});
  return ChildProcess(argv);
}

}  // namespace

TEST_CASE("a job that fails is started again, up to the given number of times", "[restart]") {
  ChildProcess child =
      launch({"--max_restarts", "2", "--show", "all"},
             "echo attempt $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; "
             "[ $RANK = 0 ] || [ $TORCHELASTIC_RESTART_COUNT = 2 ]");
  CHECK(child.wait() == 0);
  for (const char* attempt : {"attempt 0 of 2", "attempt 1 of 2", "attempt 2 of 2"}) {
    CHECK_THAT(child.out(), Contains(attempt));
  }
  CHECK_THAT(child.err(), Contains("rank 1") && Contains("exited with code 1") &&
                              Contains("restart 1 of 2 in 1 s") &&
                              Contains("restart 2 of 2 in 2 s"));
}

TEST_CASE("when the restarts are used up, the last failure is the verdict", "[restart]") {
  ChildProcess child = launch({"--max_restarts", "1"}, "exit $((3 + TORCHELASTIC_RESTART_COUNT))");
  CHECK(child.wait() == 4);
  CHECK_THAT(child.err(), Contains("not started again: --max_restarts 1 is used up"));
  CHECK_THAT(lines_of(child.err()).back(), Contains("exited with code 4"));
}

TEST_CASE("a signal ends the job even if restarts are left", "[restart]") {
  ChildProcess child = launch({"--max_restarts", "5"}, "exit 1");
  child.wait_until(
      [](const ChildProcess& c) { return c.err().find("restart 2 of 5") != std::string::npos; });
  child.send_signal(GENERATE(SIGTERM, SIGUSR1));
  CHECK(child.wait() == 143);
}

TEST_CASE("a signal while a failed job's ranks are ended counts, too", "[restart]") {
  const int signal_number = GENERATE(SIGTERM, SIGINT);
  const ddp::test::TemporaryDirectory folder;
  const std::string up = folder / "up";  // rank 0 has its trap
  ChildProcess child = launch({"--max_restarts", "5", "--show", "all"},
                              "trap 'echo asked >&2' TERM; [ $RANK = 0 ] || { until [ -e " + up +
                                  " ]; do sleep 0.01; done; exit 5; }; touch " + up +
                                  "; while :; do sleep 0.01; done");
  child.wait_until(
      [](const ChildProcess& c) { return c.err().find("asked") != std::string::npos; });
  child.send_signal(signal_number);
  CHECK(child.wait() == 128 + signal_number);
  CHECK_THAT(child.err(), Contains("rank 1 ") && Contains("exited with code 5") &&
                              Contains(": the job is not started again\n") &&
                              !Contains("restart 1 of 5"));
}

TEST_CASE("a job that fails when it is asked to stop is not started again", "[restart]") {
  ChildProcess child = launch({"--max_restarts", "5"},
                              "trap 'exit 9' USR1; echo ready >&2; while :; do sleep 0.01; done");
  child.wait_until(
      [](const ChildProcess& c) { return c.err().find("ready") != std::string::npos; });
  child.send_signal(SIGUSR1);
  CHECK(child.wait() == 9);
  CHECK_THAT(child.err(), Contains("ddp-launch: not started again: the job was asked to stop\n") &&
                              !Contains("restart 1 of 5"));
}

TEST_CASE("a rank that fails three times at the same step is not started again", "[restart]") {
  ChildProcess child({DDP_LAUNCH_PATH, "-n", "2", "--max_restarts", "5", DDP_COLLECTIVE_WORKER_PATH,
                      "fail", "shm"});
  CHECK(child.wait() == 3);
  CHECK_THAT(child.err(), Contains("restart 2 of 5") && !Contains("restart 3 of 5") &&
                              Contains("step 5 has failed 3 times in a row, last on rank 1"));
  CHECK_THAT(lines_of(child.err()).back(), Contains("in step 5: thrown on purpose"));
}

TEST_CASE("a worker of an earlier attempt is refused by name", "[restart]") {
  const ddp::TcpServer server({"127.0.0.1", 0});
  ddp::TcpStore store(server.endpoint(), std::chrono::seconds(5));
  ddp::launcher::begin_attempt(store, "job", 1);
  ChildProcess stale({DDP_COLLECTIVE_WORKER_PATH, "sum", "shm"},
                     {.environment = {{"RANK", "1"},
                                      {"LOCAL_RANK", "1"},
                                      {"WORLD_SIZE", "2"},
                                      {"LOCAL_WORLD_SIZE", "2"},
                                      {"MASTER_ADDR", "127.0.0.1"},
                                      {"MASTER_PORT", std::to_string(server.endpoint().port)},
                                      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                      {"TORCHELASTIC_RUN_ID", "job"},
                                      {"TORCHELASTIC_RESTART_COUNT", "0"}}});
  CHECK(stale.wait() == 3);
  CHECK_THAT(stale.err(),
             Contains("rank 1 (") &&
                 Contains("belongs to attempt 0, but attempt 1 of this job is running"));
}
