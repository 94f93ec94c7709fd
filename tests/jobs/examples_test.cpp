// SPDX-License-Identifier: MIT
//
// The examples as their users run them.
#include <catch2/catch.hpp>

#include <cmath>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/files.h"
#include "support/ranks_of.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::ChildProcess;

namespace {

// Runs on the CPU, even if the machine has a GPU.
std::string run(int ranks, const std::string& program) {
  ChildProcess job({DDP_LAUNCH_PATH, "--nproc_per_node=" + std::to_string(ranks), program},
                   {.environment = {{"CUDA_VISIBLE_DEVICES", ""}}});
  const int code = job.wait(100s);
  INFO(job.err());
  REQUIRE(code == 0);
  return job.out();
}

// The number after the last `label` in an output.
double last_number(const std::string& output, const std::string& label) {
  INFO(output);
  const std::size_t found = output.rfind(label);
  REQUIRE(found != std::string::npos);
  return std::stod(output.substr(found + label.size()));
}

}  // namespace

TEST_CASE("the all_reduce example adds up the ranks' numbers", "[examples]") {
  CHECK(run(3, DDP_ALL_REDUCE_PATH) == "3 ranks on cpu: the sum is 6\n");
}

TEST_CASE("an unknown log level is reported", "[examples]") {
  ChildProcess job({DDP_ALL_REDUCE_PATH},
                   {.environment = {{"CUDA_VISIBLE_DEVICES", ""}, {"DDP_LOG_LEVEL", "loud"}}});
  CHECK(job.wait(100s) == 0);
  CHECK(job.err() ==
        "[ddp] warning: DDP_LOG_LEVEL=loud is not one of debug, info, warning, error, off; it "
        "counts as warning\n");
}

TEST_CASE("a program that forks its ranks needs no launcher", "[examples]") {
  ChildProcess program({DDP_SPAWN_PATH});
  CHECK(program.wait() == 0);
  CHECK(program.out() == "4 ranks: the sum is 10\n");
  CHECK(program.err().empty());
}

TEST_CASE("jobs that start at the same time on one host stay separate", "[examples]") {
  std::vector<std::unique_ptr<ChildProcess>> jobs;
  for (int i = 0; i < 16; ++i) {
    jobs.push_back(std::make_unique<ChildProcess>(
        std::vector<std::string>{DDP_LAUNCH_PATH, "-n", "2", DDP_ALL_REDUCE_PATH},
        ChildProcess::Options{.environment = {{"CUDA_VISIBLE_DEVICES", ""}}}));
  }
  for (const auto& job : jobs) {
    CHECK(job->wait(100s) == 0);
    CHECK(job->out() == "2 ranks on cpu: the sum is 3\n");
    CHECK(job->err().empty());
  }
}

TEST_CASE("a custom dataset and module train on 1, 2 and 3 ranks", "[examples]") {
  const std::string alone = run(1, DDP_SPIRALS_PATH);
  CHECK(last_number(alone, "accuracy ") > 98);
  for (const int ranks : {2, 3}) {
    INFO(ranks << " ranks");
    const std::string together = run(ranks, DDP_SPIRALS_PATH);
    CHECK(last_number(together, "accuracy ") > 98);
    const double difference =
        last_number(alone, "epoch 1: loss ") - last_number(together, "epoch 1: loss ");
    CHECK(std::abs(difference) < 1e-4);
  }
}

TEST_CASE("a trainer of raw arrays learns the same on 1, 2 and 3 ranks", "[examples]") {
  const std::string alone = run(1, DDP_BRING_YOUR_OWN_GRADIENTS_PATH);
  CHECK(last_number(alone, "test accuracy ") > 80);
  for (const int ranks : {2, 3}) {  // three have 43, 43 and 42 samples of each global batch
    INFO(ranks << " ranks");
    const std::string together = run(ranks, DDP_BRING_YOUR_OWN_GRADIENTS_PATH);
    const auto difference = [&](const std::string& label) {
      return std::abs(last_number(alone, label) - last_number(together, label));
    };
    CHECK(difference("step 100 of 469: loss ") < 1e-5);
    CHECK(difference("step 469 of 469: loss ") < 1e-4);  // rounding that ReLU has amplified
    CHECK(difference("test accuracy ") < 0.1);
  }
}

TEST_CASE("a trainer of one's own that is stopped and killed ends as if it had not been",
          "[examples]") {
  const test::TemporaryDirectory directory;
  const auto start = [&](const std::string& checkpoints) {
    return ChildProcess({DDP_LAUNCH_PATH, "-n", "2", "--max-restarts=1", DDP_STOP_AND_RESUME_PATH,
                         directory / checkpoints});
  };
  const auto newest_of = [&](const std::string& checkpoints) {
    const std::string list = test::bytes_of(directory / checkpoints / "latest");
    return test::bytes_of(directory / checkpoints / list.substr(0, list.find('\n')));
  };
  ChildProcess unbroken = start("a");
  REQUIRE(unbroken.wait(200s) == 0);
  {
    ChildProcess stopped = start("b");
    stopped.wait_for_output("epoch 1:");
    kill(stopped.pid(), SIGTERM);
    CHECK(stopped.wait(60s) == 128 + SIGTERM);
  }
  ChildProcess resumed = start("b");
  resumed.wait_for_output("resuming from ");
  resumed.wait_for_output("epoch ");
  kill(test::first_rank_of(resumed), SIGKILL);
  REQUIRE(resumed.wait(200s) == 0);
  CHECK_THAT(unbroken.out(), Catch::Contains("epoch 5:"));
  CHECK(last_number(unbroken.out(), "accuracy ") > 80);
  CHECK(newest_of("b") == newest_of("a"));
}
