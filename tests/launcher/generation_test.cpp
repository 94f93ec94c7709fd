// SPDX-License-Identifier: MIT
#include "launcher/run/generation.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>

#include "support/in_child.h"

using namespace ddp::launcher;
using ddp::test::check_in_child;
using ddp::test::Verdict;

namespace {

constexpr std::chrono::seconds kBound{25};

// Leaves the only worker's end, and its SIGCHLD, to the generation.
void wait_for_end_of_worker() {
  siginfo_t info{};
  ::waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
}

// Both signals are there before the generation reads the first one.
void be_stopped_after_end_of_worker() {
  wait_for_end_of_worker();
  ::raise(SIGTERM);
}

// SIGALRM ends this process if the generation does not end.
Outcome run_generation(void (*on_start)()) {
  ::alarm(static_cast<unsigned>(kBound.count()));
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const WorkerPlan plan{.command = {.path = "/bin/false", .argv = {"false"}},
                        .failure_grace = 2 * kBound,
                        .outside_grace = 2 * kBound,
                        .on_start = on_start};
  const JobLayout layout;
  RunFolder files({}, layout, "");
  SignalReader signals;
  Console console(-1, -1);
  NoOtherNodes nodes;
  return Generation({plan, layout, files, signals, console, nodes}, 0).run();
}

}  // namespace

TEST_CASE("a generation whose workers end before it first waits ends at once", "[generation]") {
  check_in_child([] {
    const Outcome outcome = run_generation(wait_for_end_of_worker);
    return outcome.failure && !outcome.interrupted_by ? Verdict::kGood : Verdict::kBad;
  });
  check_in_child([] {
    const Outcome outcome = run_generation(be_stopped_after_end_of_worker);
    return outcome.interrupted_by == SIGTERM ? Verdict::kGood : Verdict::kBad;
  });
}
