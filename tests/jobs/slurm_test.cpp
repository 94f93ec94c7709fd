// SPDX-License-Identifier: MIT
//
// Runs workers and launchers with the variables that srun sets for its tasks.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>

#include "support/child_process.h"
#include "support/train_job.h"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using ddp::test::ChildProcess;
using ddp::test::TrainJob;
using Strings = std::vector<std::string>;
using Variables = std::vector<std::pair<std::string, std::string>>;

namespace {

constexpr auto kTime = 100s;

// The environment of one of two tasks. The port depends on the numbers of job and step.
Variables task(int step, int rank, const Variables& more) {
  Variables variables = {{"SLURM_PROCID", std::to_string(rank)},
                         {"SLURM_NTASKS", "2"},
                         {"SLURM_STEP_NUM_TASKS", "2"},
                         {"SLURM_JOB_ID", std::to_string(::getpid())},
                         {"SLURM_STEP_ID", std::to_string(step)},
                         {"OMP_NUM_THREADS", "1"}};  // as many as ddp-launch gives
  variables.insert(variables.end(), more.begin(), more.end());
  return variables;
}

Variables task_on_one_node(int step, int rank) {
  return task(step, rank,
              {{"SLURM_LOCALID", std::to_string(rank)},
               {"SLURM_NODEID", "0"},
               {"SLURM_NNODES", "1"},
               {"SLURM_STEP_TASKS_PER_NODE", "2"},
               {"SLURM_STEP_NODELIST", "somewhere"}});
}

// The same for two nodes; both tasks can reach the hosts in the list.
Variables task_on_two_nodes(int step, int rank) {
  return task(step, rank,
              {{"SLURM_LOCALID", "0"},
               {"SLURM_NODEID", std::to_string(rank)},
               {"SLURM_NNODES", "2"},
               {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
               {"SLURM_STEP_NODELIST", "127.0.0.[1-2]"}});
}

// Both tasks run train behind the words of `starter`. Returns the parameters' fingerprint.
std::string run_tasks(int step, const Strings& starter, Variables (*variables_of)(int, int)) {
  const TrainJob job;
  std::vector<std::unique_ptr<ChildProcess>> tasks;
  for (int rank = 0; rank < 2; ++rank) {
    const ChildProcess::Options options{.environment = variables_of(step, rank)};
    tasks.push_back(std::make_unique<ChildProcess>(job.command(starter), options));
  }
  for (const auto& each : tasks) {
    const int exit_code = each->wait(kTime);
    INFO(each->err());
    REQUIRE(exit_code == 0);
  }
  return job.params_sha256();
}

std::string run_alone(int ranks) {
  const TrainJob job;
  ChildProcess process(job.command({DDP_LAUNCH_PATH, "-n", std::to_string(ranks)}),
                       {.environment = {{"OMP_NUM_THREADS", "1"}}});
  const int exit_code = process.wait(kTime);
  INFO(process.err());
  REQUIRE(exit_code == 0);
  REQUIRE(job.params_sha256().size() == 64);
  return job.params_sha256();
}

}  // namespace

TEST_CASE("srun starts workers without flags", "[slurm]") {
  CHECK(run_tasks(1, {}, task_on_one_node) == run_alone(2));
}

TEST_CASE("tasks of srun on several nodes meet on the first", "[slurm]") {
  CHECK(run_tasks(2, {}, task_on_two_nodes) == run_alone(2));
}

TEST_CASE("srun starts launchers without flags, each of them a node", "[slurm]") {
  CHECK(run_tasks(3, {DDP_LAUNCH_PATH, "-n", "2"}, task_on_one_node) == run_alone(4));
}

TEST_CASE("a launcher that waits for tasks that are none says who has counted them", "[slurm]") {
  ChildProcess launcher({DDP_LAUNCH_PATH, "--timeout-start", "5", "true"},
                        {.environment = task_on_one_node(5, 0)});
  CHECK(launcher.wait() == 2);
  CHECK_THAT(launcher.err(), Contains("missing node 1") &&
                                 Contains("srun started 2 processes (SLURM_STEP_NUM_TASKS)") &&
                                 Contains("alone: --standalone"));
}

TEST_CASE("launchers on two nodes do not meet on a loopback address", "[slurm]") {
  ChildProcess launcher({DDP_LAUNCH_PATH, "true"}, {.environment = task_on_two_nodes(4, 0)});
  CHECK(launcher.wait() == 2);
  CHECK_THAT(launcher.err(), Contains("127.0.0.1 is a loopback address"));
}

TEST_CASE("a launcher in a batch script uses its own node, and a remark names the others",
          "[slurm]") {
  ChildProcess launcher(
      {DDP_LAUNCH_PATH, "-n", "2", "true"},
      {.environment = {
           {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}});
  CHECK(launcher.wait() == 0);
  CHECK_THAT(launcher.err(),
             Contains("this Slurm job has 2 nodes, of which only this one is used"));
}
