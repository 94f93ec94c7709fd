// SPDX-License-Identifier: MIT
//
// Jobs that are interrupted, or of which a rank is killed, resume to the same bits: on CPUs, and on
// a GPU that the ranks share.
#include <signal.h>

#include <catch2/catch.hpp>
#include <string>

#include "support/ranks_of.h"
#include "support/resumable_job.h"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using ddp::test::Arguments;
using ddp::test::ChildProcess;
using ddp::test::kRanksShareGpu;
using ddp::test::parameters_of_unbroken_run;
using ddp::test::ResumableJob;
using ddp::test::steps;
using ddp::test::TrainingSet;
using ddp::test::operator+;

namespace {

// Only the last element where jobs are slow.
Arguments some_of(const Arguments& all) { return kRanksShareGpu ? Arguments{all.back()} : all; }

}  // namespace

TEST_CASE("a job that is interrupted inside an epoch and resumed is bit-identical", "[resume]") {
  const TrainingSet set;
  for (const std::string& model : some_of({"mlp", "lenet5"})) {
    const auto flags = [&](const char* steps) {
      return set.flags() + Arguments{"--model", model, "--accumulate", "2", "--max-steps", steps};
    };
    ResumableJob job(2);
    (void)job.run(flags("3"));
    CHECK(job.latest() == "model_epoch_0_step_3.safetensors\n");
    CHECK_THAT(job.run(flags("8")),
               Contains("\nresumed from " + job.file("c/model_epoch_0_step_3").string() +
                        ".safetensors at step 3, in epoch 1\n"));
    CHECK(job.parameters() == parameters_of_unbroken_run(2, flags("8")));
  }
}

TEST_CASE("a resumed job that fails names the step of the whole training", "[resume]") {
  const TrainingSet set;
  ResumableJob job(2);
  (void)job.run(set.flags() + Arguments{"--max-steps", "10"});
  // The first update makes the parameters huge, so that the second step or the third one fails.
  ChildProcess resumed(job.command(
      set.flags() + Arguments{"--max-steps", "20", "--lr", "1e30", "--non-finite", "stop"}));
  CHECK(resumed.wait(60s) != 0);
  CHECK_THAT(resumed.out(), Contains("resumed from "));
  CHECK_THAT(ddp::test::lines_of(resumed.err()).back(),
             Contains(", in step 12") || Contains(", in step 13"));
}

TEST_CASE("a job that restarts after a killed rank ends with the same model", "[resume][kill]") {
  const TrainingSet set;
  // So many that the job still runs when it is killed.
  const Arguments flags =
      set.flags() + Arguments{"--max-steps", steps(kRanksShareGpu ? 200 : 500, 80)};
  const std::string unbroken = parameters_of_unbroken_run(2, flags);
  for (const std::string& resume : some_of({"none", "auto"})) {
    ResumableJob job(2);
    ChildProcess started(job.command(
        flags + Arguments{"--checkpoint-every", "7", "--resume", resume}, {"--max_restarts", "3"}));
    started.wait_for_output("step 20/", 60s);
    REQUIRE(kill(ddp::test::first_rank_of(started), SIGKILL) == 0);
    REQUIRE(started.wait(60s) == 0);
    CHECK_THAT(started.err(), Contains("restart 1 of 3"));
    CHECK_THAT(started.out(), Contains("resumed from " + job.file("c").string()));
    CHECK(job.parameters() == unbroken);
  }
}
