// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>

#include "launcher/plan/dry_run.h"

using namespace ddp::launcher;
using Strings = std::vector<std::string>;

TEST_CASE("a dry run prints a table of workers and their environment", "[dry-run]") {
  const std::vector<PlannedWorker> workers = {
      {.rank = 2,
       .local_rank = 0,
       .device = "GPU 10",
       .cpus = "0-3",
       .argv = {"./train", "--name", "it's"},
       .environment = {"RANK=2", "WORLD_SIZE=4", "EMPTY="}},
      {.rank = 3,
       .local_rank = 1,
       .device = "GPU 7",
       .cpus = "4-7,12",
       .argv = {"./train", ""},
       .environment = {"RANK=3", "WORLD_SIZE=4", "EMPTY="}}};
  CHECK(format_dry_run(workers) == R"(rank  local rank  device  CPUs    command
   2           0  GPU 10  0-3     ./train --name 'it'\''s'
   3           1  GPU 7   4-7,12  ./train ''

environment of every worker:
  WORLD_SIZE=4
  EMPTY=''

environment of each:
  rank 2: RANK=2
  rank 3: RANK=3
)");
}

TEST_CASE("a plan leaves out what is chosen only at the start", "[dry-run]") {
  WorkerPlan plan;
  plan.command = {"/bin/x", {"x", "-a"}, 1};
  JobLayout layout;
  layout.local_world_size = 2;
  layout.world_size = 4;
  layout.first_rank = 2;
  layout.store = {"127.0.0.1", 0};
  const std::vector<PlannedWorker> workers = preview(plan, layout);
  REQUIRE(workers.size() == 2);
  CHECK(workers[1].rank == 3);
  CHECK(workers[1].local_rank == 1);
  CHECK(workers[1].argv == Strings{"x", "--local-rank=1", "-a"});
  const std::string text = format_dry_run(workers);
  CHECK_THAT(text, Catch::Matchers::Contains("MASTER_PORT='(a free one)'") &&
                       Catch::Matchers::Contains("TORCHELASTIC_RUN_ID='(a random one)'") &&
                       Catch::Matchers::Contains("TORCHELASTIC_ERROR_FILE='(a file of its own)'"));
  CHECK_THAT(text, Catch::Matchers::Contains("DDP_CRASH_FILE='(a file of its own)'") &&
                       Catch::Matchers::Contains("DDP_WORKER_SLOTS='(memory of the launcher)'") &&
                       Catch::Matchers::Contains("DDP_LAUNCH_ID='(a random one)'") &&
                       !Catch::Matchers::Contains("DDP_EVENTS_FILE"));
  plan.logs.directory = "logs";
  CHECK_THAT(format_dry_run(preview(plan, layout)),
             Catch::Matchers::Contains("DDP_EVENTS_FILE='(a file of its own)'"));
}
