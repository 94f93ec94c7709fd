// SPDX-License-Identifier: MIT
//
// What the built ddp-launch reports about a failed job of two nodes.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "ddp/base/net/socket.h"
#include "ddp/base/system/host_name.h"
#include "support/files.h"
#include "support/free_endpoint.h"
#include "support/launch.h"
#include "support/ranks_of.h"
#include "support/routable_address.h"
#include "support/scoped_variable.h"

using namespace ddp::test::launch;
using Catch::Matchers::Contains;
using ddp::test::ChildProcess;
using ddp::test::free_endpoint;
using ddp::test::TemporaryDirectory;
using ddp::test::wait_until_gone;

TEST_CASE(
    "the victims of a failure are not named as the cause, even if their node hears of it first",
    "[launcher][verdict]") {
  const std::string address = ddp::test::routable_address();
  if (address.empty()) {
    std::fprintf(stderr, "SKIPPED: no address but loopback\n");
    return;
  }
  // The rank that caused the failure is on node 1 and ends late.
  const Strings job = {"--nnodes=2",
                       "-n",
                       "1",
                       "--master_addr",
                       address,
                       "--master_port",
                       std::to_string(free_endpoint(address).port)};
  const auto launch = [&job](const std::string& node) {
    Strings argv = command(job);
    argv.insert(argv.end(),
                {"--node_rank", node, DDP_COLLECTIVE_WORKER_PATH, "fail-slowly", "tcp"});
    return argv;
  };
  ChildProcess node0(launch("0"));
  ChildProcess node1(launch("1"));
  for (ChildProcess* node : {&node0, &node1}) {
    CHECK(node->wait(kStopBound) == 3);
    CHECK_THAT(last_line(node->err()),
               Contains("rank 1 (") && Contains("in step 5: thrown on purpose"));
  }
}

namespace {

// Rank 0 fails; rank 1 ignores SIGTERM, so its launcher tells of the failure two seconds after it
// has claimed it.
const std::string kFailingNode =
    "[ $LOCAL_RANK = 0 ] || { trap '' TERM; echo $PPID >\"$0/new\"; mv \"$0/new\" \"$0/agent\"; }; "
    "until [ $LOCAL_RANK = 0 ] && [ -e \"$0/other\" ] && [ -e \"$0/agent\" ]; do sleep 0.01; done; "
    "exit 7";
// Asked to end because of the claim, it stops that launcher.
const std::string kOtherNode =
    "agent() { cat \"$0/agent\"; }; trap 'kill -STOP $(agent); echo agent=$(agent). >&2; exit 1' "
    "TERM; echo pid=$$. >&2; touch \"$0/other\"; while :; do sleep 0.01; done";

}  // namespace

TEST_CASE("nodes that cannot meet because another program has the port are told which one",
          "[launcher][nodes]") {
  const std::string address = ddp::test::routable_address();
  if (address.empty()) {
    std::fprintf(stderr, "SKIPPED: no address but loopback\n");
    return;
  }
  const ddp::Socket taken = ddp::Socket::listen({address, 0});
  const Result result = run(command({"--nnodes=2", "--rdzv_backend=c10d",
                                     "--rdzv_endpoint=" + to_string(taken.local_endpoint()),
                                     "--timeout_start=6", "true"}),
                            kStopBound);
  CHECK(result.exit_code != 0);
  CHECK_THAT(result.err, Contains(" is held by pid " + std::to_string(::getpid()) + " ("));
}

TEST_CASE("a launcher whose node 0 does not answer obeys signals, and its agent dies with it",
          "[launcher][nodes]") {
  const std::uint16_t port = free_endpoint().port;
  ChildProcess asked = launch_node(1, port, command({"true"}));
  ChildProcess killed = launch_node(1, port, command({"true"}));
  asked.wait_for_output("waiting: node 0");
  killed.wait_for_output("waiting: node 0");
  const pid_t agent = ddp::test::first_child_of(killed.pid());
  asked.send_signal(SIGTERM);
  killed.send_signal(SIGKILL);
  CHECK(asked.wait(kStopBound) == 128 + SIGTERM);
  CHECK_THAT(last_line(asked.err()), Contains("SIGTERM while waiting for the other nodes"));
  check_all_gone({agent});
}

TEST_CASE("Ctrl-C ends the wait for a failed node that does not tell its failure",
          "[launcher][verdict]") {
  // At exit, LeakSanitizer traces its process, and sometimes hangs if signals come then.
  const ddp::test::ScopedVariable no_leaks("ASAN_OPTIONS", "detect_leaks=0");
  const TemporaryDirectory folder;
  const std::uint16_t port = free_endpoint().port;
  const auto argv = [&folder](const std::string& workers, const std::string& script) {
    return command({"-n", workers, "--", "sh", "-c", script, folder.path().string()});
  };
  ChildProcess other = launch_node(0, port, argv("1", kOtherNode));
  ChildProcess failing = launch_node(1, port, argv("2", kFailingNode));
  other.wait_for_output("agent=");
  CHECK(wait_until_gone(pids_in(other.err()).at(0), kStopBound));
  // The first signals may come before the launcher waits.
  const ddp::Deadline end = ddp::Deadline::after(kStopBound);
  do {
    other.send_signal(SIGINT);
  } while (!wait_until_gone(other.pid(), ddp::Timeout(100)) && !end.passed());
  const int code = other.wait(kStopBound);
  CAPTURE(other.err());
  CHECK(code == 128 + SIGINT);
  CHECK_THAT(last_line(other.err()), Contains("ddp-launch: node 1 (" + ddp::host_name() +
                                              ") failed; SIGINT ended the wait for its reason"));
  ::kill(pids_in(other.err(), "agent").at(0), SIGKILL);
}

TEST_CASE("a second Ctrl-C does not wait for the grace period of other nodes either",
          "[launcher][verdict]") {
  const std::uint16_t port = free_endpoint().port;
  const int from = GENERATE(0, 1);  // the node whose launcher gets it
  CAPTURE(from);
  const Strings argv = command({"-n", "1", "--grace", "1000", "--", "sh", "-c", kStubborn});
  ChildProcess node0 = launch_node(0, port, argv);
  ChildProcess node1 = launch_node(1, port, argv);
  (void)wait_for_pids(node0, 2);
  (void)wait_for_pids(node1, 2);
  ChildProcess& stopped = from == 0 ? node0 : node1;
  ChildProcess& other = from == 0 ? node1 : node0;
  stopped.send_signal(SIGINT);
  other.wait_for_output("SIGINT on node " + std::to_string(from));
  stopped.send_signal(SIGINT);
  for (ChildProcess* node : {&stopped, &other}) {
    CHECK(node->wait(kStopBound) == 128 + SIGINT);
    CHECK_THAT(node->err(), !Contains("had not ended") && !Contains("was killed by"));
  }
  CHECK_THAT(other.err(), Contains("node " + std::to_string(from) + " (" + ddp::host_name() +
                                   ") does not wait any longer: killing 1 rank\n"));
}

TEST_CASE("Ctrl-C to a launcher whose worker has failed ends those of other nodes",
          "[launcher][verdict]") {
  const std::uint16_t port = free_endpoint().port;
  const TemporaryDirectory folder;
  // Rank 0 fails, and rank 1 does not end when it is asked to.
  const std::string script =
      "[ $RANK = 1 ] || { until [ -e \"$0/up\" ]; do sleep 0.01; done; exit 7; }; "
      "trap 'echo asked. >&2' TERM; touch \"$0/up\"; while :; do sleep 0.01; done";
  const Strings argv = command({"-n", "1", "--", "sh", "-c", script, folder.path().string()});
  ChildProcess node0 = launch_node(0, port, argv);
  ChildProcess node1 = launch_node(1, port, argv);
  node1.wait_for_output("asked.");
  node0.send_signal(SIGINT);
  for (ChildProcess* node : {&node0, &node1}) {
    CHECK(node->wait(kStopBound) == 7);
    CHECK_THAT(last_line(node->err()), Contains("rank 0 (") && Contains("exited with code 7"));
    CHECK_THAT(node->err(), !Contains("cannot be reached"));
  }
}

TEST_CASE("ranks of another node, which may have ended before, are not said to have stopped",
          "[launcher][verdict]") {
  const std::uint16_t port = free_endpoint().port;
  ChildProcess node0 = launch_node(
      0, port,
      command({"-n", "1", "--", "sh", "-c",
               "DDP_START_TIMEOUT=2 exec '" DDP_COLLECTIVE_WORKER_PATH "' sum tcp patient"}));
  ChildProcess node1 = launch_node(1, port, command({"-n", "1", "true"}));
  for (ChildProcess* node : {&node0, &node1}) {
    CHECK(node->wait(kStopBound) == 3);
    CHECK_THAT(last_line(node->err()),
               Contains("missing: rank 1") && !Contains("stopped because of it"));
  }
}

TEST_CASE("after ranks of its node have ended, a failed one's verdict counts no others",
          "[launcher][verdict]") {
  const std::uint16_t port = free_endpoint().port;
  const TemporaryDirectory folder;
  const std::string pid = folder / "pid";
  // Rank 0 fails once its launcher has seen the end of rank 1.
  const std::string script = "[ $RANK = 1 ] && echo $$ >" + pid + ".new && mv " + pid + ".new " +
                             pid + "; [ $RANK = 0 ] || exit 0; until [ -e " + pid +
                             " ] && ! kill -0 $(cat " + pid + "); do sleep 0.01; done; exit 7";
  ChildProcess node0 = launch_node(0, port, command({"-n", "2", "--", "sh", "-c", script}));
  ChildProcess node1 = launch_node(1, port, command({"-n", "2", "--", "sh", "-c", script}));
  for (ChildProcess* node : {&node0, &node1}) {
    CHECK(node->wait(kStopBound) == 7);
    CHECK_THAT(last_line(node->err()),
               Contains("exited with code 7") && !Contains("stopped because of it"));
  }
}
