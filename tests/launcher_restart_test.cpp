// SPDX-License-Identifier: MIT
//
// Jobs that ddp-launch starts again.
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "support/child_process.h"

using Catch::Matchers::Contains;
using ddp::test::ChildProcess;
using ddp::test::lines_of;
using Strings = std::vector<std::string>;

namespace {

// ddp-launch -n 2 [flags] -- sh -c SCRIPT
ChildProcess launch(Strings flags, const std::string& script) {
  Strings argv = {DDP_LAUNCH_PATH, "-n", "2"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  argv.insert(argv.end(), {"--", "sh", "-c", script});
  return ChildProcess(argv);
}

}  // namespace

TEST_CASE("a job that fails is started again, as often as it may be", "[restart]") {
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

TEST_CASE("when the restarts are used up the last failure is the verdict", "[restart]") {
  ChildProcess child = launch({"--max_restarts", "1"}, "exit $((3 + TORCHELASTIC_RESTART_COUNT))");
  CHECK(child.wait() == 4);
  CHECK_THAT(child.err(), Contains("not started again: --max_restarts 1 is used up"));
  CHECK_THAT(lines_of(child.err()).back(), Contains("exited with code 4"));
}

TEST_CASE("no restart keeps a signal from ending the job", "[restart]") {
  ChildProcess child = launch({"--max_restarts", "5"}, "exit 1");
  child.wait_until(
      [](const ChildProcess& c) { return c.err().find("restart 2 of 5") != std::string::npos; });
  child.send_signal(SIGTERM);
  CHECK(child.wait() == 143);
}
