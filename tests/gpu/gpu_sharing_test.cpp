// SPDX-License-Identifier: MIT
//
// Tests whether two ranks can share a GPU over NCCL. If they cannot, each test of such ranks would
// wait until its time limit, so this test runs before them (CTest's fixture nccl_sharing). It takes
// at most half a minute, or a minute if it has to try again, and prints NCCL's messages.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "support/job.h"
#include "support/launch.h"

using namespace ddp;
using test::ChildProcess;

namespace {

constexpr Timeout kAttempt{30'000};
constexpr std::size_t kLines = 40;  // of NCCL's output after a success; a failure prints all

// For systems that forbid NCCL's newer way of sharing memory.
const test::Environment kWithoutCumem = {{"NCCL_CUMEM_ENABLE", "0"},
                                         {"NCCL_CUMEM_HOST_ENABLE", "0"}};

std::string tail_of(const std::string& text, std::size_t count) {
  const std::vector<std::string> lines = test::lines_of(text);
  std::string tail;
  for (std::size_t i = lines.size() - std::min(lines.size(), count); i < lines.size(); ++i) {
    tail += lines[i] + "\n";
  }
  return tail;
}

// What went wrong: how the launcher ended; empty if the sum is right.
std::string problem_of(ChildProcess& launcher) {
  try {
    const int exit_code = launcher.wait(kAttempt);
    if (exit_code != 0) return "exit code " + std::to_string(exit_code);
    return launcher.out().find("sum 3") == std::string::npos ? "there is no right sum" : "";
  } catch (const TimeoutError&) {
    return "not done after " + std::to_string(kAttempt.count()) + " ms";
  }
}

bool ranks_add_up(const test::Environment& variables) {
  test::Environment environment = variables;
  environment.insert(environment.end(), {{"NCCL_DEBUG", "INFO"},
                                         {"NCCL_DEBUG_FILE", ""},  // to stdout
                                         {"DDP_START_TIMEOUT", "20"}});
  ChildProcess launcher(
      test::launch::command({"-n", "2", "--oversubscribe", "--show=all", DDP_COLLECTIVE_WORKER_PATH,
                             "sum-allocated", "nccl"}),
      ChildProcess::Options{.environment = environment});
  const std::string problem = problem_of(launcher);
  const std::size_t lines = problem.empty() ? kLines : std::string::npos;
  std::cout << "What the ranks and NCCL say in the end:\n"
            << tail_of(launcher.out(), lines) << tail_of(launcher.err(), lines);
  std::string how = variables.empty() ? " as it is" : " with";
  for (const auto& [name, value] : variables) how += " " + name + "=" + value;
  std::cout << "Sharing a GPU " << (problem.empty() ? "works" : "fails") << how
            << (problem.empty() ? "" : ": " + problem) << "\n\n";
  return problem.empty();
}

}  // namespace

TEST_CASE("two ranks that share a GPU add up over NCCL", "[gpu][sharing]") {
  const bool works = ranks_add_up({});
  if (!works) ranks_add_up(kWithoutCumem);  // the output helps to find the cause
  CHECK(works);
}
