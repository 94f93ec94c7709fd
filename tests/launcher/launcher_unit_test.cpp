// SPDX-License-Identifier: MIT
#include <sys/wait.h>

#include <catch2/catch.hpp>

#include "launcher/launch_error.h"
#include "launcher/placement/gpu_list.h"
#include "launcher/placement/worker_count.h"
#include "launcher/plan/environment.h"
#include "launcher/verdict/verdict.h"
#include "support/run_ranks.h"

using namespace ddp::launcher;
using Catch::Matchers::Contains;
using ddp::test::error_of;
using Strings = std::vector<std::string>;

namespace {

struct Job {
  WorkerPlan plan;
  JobLayout layout;
  Attempt attempt;

  [[nodiscard]] EnvironmentBlock environment(int local_rank, EnvironmentBlock inherited = {}) {
    plan.environment = std::move(inherited);
    return worker_environment(plan, layout, attempt, local_rank);
  }
};

Job job_of(int world_size, int cpus) {
  return {.plan = {.command = {}, .usable_cpus = cpus},
          .layout = {.local_world_size = world_size,
                     .world_size = world_size,
                     .store = {"127.0.0.1", 4242},
                     .run_id = "cafe"},
          .attempt = {}};
}

int threads_per_worker(int workers, int cpus) {
  const Job job = job_of(workers, cpus);
  return omp_threads_per_worker(job.plan, job.layout);
}

Strings values_of(const EnvironmentBlock& block, const std::string& name) {
  Strings values;
  for (const std::string& entry : block) {
    if (entry.starts_with(name + "=")) values.push_back(entry.substr(name.size() + 1));
  }
  return values;
}

GpuInventory gpus(std::size_t count) {
  GpuInventory inventory;
  for (std::size_t i = 0; i < count; ++i) {
    inventory.gpus.push_back({"GPU-" + std::string(1, static_cast<char>('a' + i)) + "1234"});
  }
  if (count == 0) inventory.problem = "no driver";
  return inventory;
}

Machine machine(std::size_t gpu_count, std::optional<std::string> visible, int cpus = 6) {
  return {[gpu_count] { return gpus(gpu_count); }, std::move(visible), cpus};
}

WorkerRequest number(int workers) { return {WorkerRequest::Kind::kNumber, workers}; }

}  // namespace

TEST_CASE("a worker inherits the user's file for events, but not an outer worker's",
          "[environment]") {
  const auto events_file = [](const std::string& error_file) {
    const EnvironmentBlock inherited = {"DDP_EVENTS_FILE=/outer/0/events.txt",
                                        "TORCHELASTIC_ERROR_FILE=" + error_file};
    return values_of(job_of(2, 8).environment(0, inherited), "DDP_EVENTS_FILE");
  };
  CHECK(events_file("/outer/0/error.json").empty());
  CHECK(events_file("/tmp/0/error.json") == Strings{"/outer/0/events.txt"});
  CHECK(events_file("") == Strings{"/outer/0/events.txt"});
}

TEST_CASE("a worker's environment has each of torchrun's variables once", "[environment]") {
  const EnvironmentBlock inherited = {"RANK=9",   "HOME=/h",
                                      "RANKED=1", "MASTER_PORT=1",
                                      "RANK=8",   "TORCHELASTIC_ERROR_FILE=/outer/error.json"};
  const EnvironmentBlock block = job_of(4, 8).environment(3, inherited);
  const std::pair<const char*, const char*> expected[] = {
      {"RANK", "3"},
      {"LOCAL_RANK", "3"},
      {"GROUP_RANK", "0"},
      {"ROLE_RANK", "3"},
      {"ROLE_NAME", "default"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"WORLD_SIZE", "4"},
      {"GROUP_WORLD_SIZE", "1"},
      {"ROLE_WORLD_SIZE", "4"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", "4242"},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
      {"TORCHELASTIC_RUN_ID", "cafe"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_ERROR_FILE", ""},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"OMP_NUM_THREADS", "2"},
      {"HOME", "/h"},
      {"RANKED", "1"},
  };
  for (const auto& [name, value] : expected) {
    CAPTURE(name);
    CHECK(values_of(block, name) == Strings{value});
  }
}

TEST_CASE("the job's own settings reach the environment", "[environment]") {
  Job job = job_of(2, 8);
  job.layout.node_rank = 1;
  job.layout.node_count = 2;
  job.layout.first_rank = 2;
  job.layout.world_size = 4;
  job.plan.role = "trainer";
  job.plan.max_restarts = 3;
  job.plan.store_host = StoreHost::kWorker;
  job.plan.rank0_terminal = "/dev/pts/7";
  job.plan.logs.directory = "/logs";
  job.attempt.restart_count = 1;
  job.attempt.folder.path = "/e";
  const EnvironmentBlock block = job.environment(1);
  const std::pair<const char*, const char*> expected[] = {
      {"RANK", "3"},
      {"LOCAL_RANK", "1"},
      {"GROUP_RANK", "1"},
      {"ROLE_RANK", "3"},
      {"ROLE_NAME", "trainer"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"WORLD_SIZE", "4"},
      {"GROUP_WORLD_SIZE", "2"},
      {"ROLE_WORLD_SIZE", "4"},
      {"TORCHELASTIC_RESTART_COUNT", "1"},
      {"TORCHELASTIC_MAX_RESTARTS", "3"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCHELASTIC_ERROR_FILE", "/e/1/error.json"},
      {"DDP_CRASH_FILE", "/e/1/crash.txt"},
      {"DDP_EVENTS_FILE", "/e/1/events.txt"},
  };
  for (const auto& [name, value] : expected) {
    CAPTURE(name);
    CHECK(values_of(block, name) == Strings{value});
  }
  CHECK(values_of(job.environment(0), "DDP_LAUNCH_TTY").empty());  // it is not rank 0
}

TEST_CASE("the launcher's variables are listed, also with a value that the user has set",
          "[environment]") {
  Job job = job_of(1, 8);
  job.plan.environment = {"HOME=/h", "RANK=0", "OMP_NUM_THREADS=7"};
  const EnvironmentBlock told = contract_entries(job.plan, job.layout, job.attempt, 0);
  CHECK(values_of(told, "HOME").empty());
  CHECK(values_of(told, "RANK") == Strings{"0"});
  CHECK(values_of(told, "OMP_NUM_THREADS") == Strings{"7"});
}

TEST_CASE("the user's settings of threads and NCCL are kept", "[environment]") {
  const EnvironmentBlock inherited = {"OMP_NUM_THREADS=7", "TORCH_NCCL_ASYNC_ERROR_HANDLING=3",
                                      "CUDA_VISIBLE_DEVICES=2,3"};
  const EnvironmentBlock block = job_of(2, 8).environment(1, inherited);
  CHECK(values_of(block, "OMP_NUM_THREADS") == Strings{"7"});
  CHECK(values_of(block, "TORCH_NCCL_ASYNC_ERROR_HANDLING") == Strings{"3"});
  CHECK(values_of(block, "CUDA_VISIBLE_DEVICES") == Strings{"2,3"});
  const EnvironmentBlock empty = job_of(2, 8).environment(1, {"OMP_NUM_THREADS="});
  CHECK(values_of(empty, "OMP_NUM_THREADS") ==
        values_of(job_of(2, 8).environment(1), "OMP_NUM_THREADS"));
}

TEST_CASE("workers that share GPUs get different NCCL_HOSTIDs, and keep what the user has set",
          "[environment]") {
  Job job = job_of(2, 8);
  CHECK(values_of(job.environment(0, {"DDP_OVERSUBSCRIBE=1"}), "DDP_OVERSUBSCRIBE").empty());
  job.plan.oversubscribe = true;
  const EnvironmentBlock block = job.environment(1, {"NCCL_MAX_CTAS=2"});
  CHECK(values_of(block, "DDP_OVERSUBSCRIBE") == Strings{"1"});
  CHECK(values_of(block, "NCCL_HOSTID") == Strings{"ddp-rank-1"});
  CHECK(values_of(block, "NCCL_SHM_DISABLE") == Strings{"1"});
  CHECK(values_of(block, "NCCL_MAX_CTAS") == Strings{"2"});
}

TEST_CASE("only rank 0 of a job on a terminal gets DDP_LAUNCH_TTY", "[environment]") {
  Job job = job_of(2, 8);
  CHECK(values_of(job.environment(0, {"DDP_LAUNCH_TTY=/dev/x"}), "DDP_LAUNCH_TTY").empty());
  job.plan.rank0_terminal = "/dev/pts/7";
  CHECK(values_of(job.environment(0), "DDP_LAUNCH_TTY") == Strings{"/dev/pts/7"});
  CHECK(values_of(job.environment(1, {"DDP_LAUNCH_TTY=/dev/x"}), "DDP_LAUNCH_TTY").empty());
}

TEST_CASE("each worker gets its share of the CPUs, at least one", "[environment]") {
  CHECK(threads_per_worker(1, 8) == 8);
  CHECK(threads_per_worker(3, 8) == 2);
  CHECK(threads_per_worker(16, 8) == 1);
}

TEST_CASE("CUDA_VISIBLE_DEVICES selects GPUs as CUDA reads it", "[gpu-count]") {
  const std::pair<std::optional<std::string>, int> expected[] = {
      {std::nullopt, 3},  {"", 0},           {"0", 1},     {"2,0", 2},     {" 1 , 2 ", 2},
      {"0,-1,1", 1},      {"-1", 0},         {"0,7,1", 1}, {"1,1", 0},     {"GPU-a1234", 1},
      {"GPU-a,GPU-c", 2}, {"GPU-x,0", 0},    {"GPU-", 0},  {"0,GPU-a", 0}, {"MIG-1,MIG-2", 2},
      {"NoDevFiles", 0},  {"1x,2ampere", 2},
  };
  for (const auto& [value, count] : expected) {
    CAPTURE(value);
    CHECK(static_cast<int>(visible_gpus(gpus(3), value).size()) == count);
  }
  CHECK(visible_gpus(gpus(0), std::nullopt).empty());
  CHECK(visible_gpus(gpus(0), "MIG-1").empty());
}

TEST_CASE("the number of workers follows the machine if requested", "[worker-count]") {
  const WorkerRequest any{WorkerRequest::Kind::kAuto, 0};
  const WorkerRequest gpu{WorkerRequest::Kind::kGpu, 0};
  const WorkerRequest cpu{WorkerRequest::Kind::kCpu, 0};
  CHECK(decide_worker_count(any, machine(4, std::nullopt)).workers == 4);
  CHECK(decide_worker_count(any, machine(4, "1,2")).workers == 2);
  CHECK(decide_worker_count(gpu, machine(4, "1")).workers == 1);
  CHECK(decide_worker_count(cpu, machine(4, std::nullopt)).workers == 6);
  const WorkerCount fallback = decide_worker_count(any, machine(0, std::nullopt));
  CHECK(fallback.workers == 6);
  CHECK_THAT(fallback.remark, Contains("no GPU is visible") && Contains("no driver"));
  const WorkerCount on_purpose = decide_worker_count(any, machine(4, ""));
  CHECK(on_purpose.workers == 6);
  CHECK(on_purpose.remark.empty());
}

TEST_CASE("MIG instances count as one GPU, unless workers may share", "[worker-count]") {
  const WorkerRequest gpu{WorkerRequest::Kind::kGpu, 0};
  CHECK(decide_worker_count(gpu, machine(1, "MIG-1,MIG-2")).workers == 1);
  CHECK(decide_worker_count(gpu, machine(1, "MIG-1,MIG-2"), true).workers == 2);
  CHECK_THAT(decide_worker_count(number(2), machine(1, "MIG-1,MIG-2")).remark,
             Contains("1 visible GPU") && Contains("--oversubscribe"));
  Machine divided = machine(2, std::nullopt);
  divided.find_gpus = [] {
    GpuInventory inventory = gpus(2);
    for (Gpu& each : inventory.gpus) each.mig = {"MIG-of-" + each.uuid};
    return inventory;
  };
  CHECK(decide_worker_count(gpu, divided).workers == 1);
}

TEST_CASE("asking for GPUs where none is visible is refused", "[worker-count]") {
  const auto error = [](const Machine& on) {
    return error_of([&] {
      static_cast<void>(decide_worker_count({WorkerRequest::Kind::kGpu, 0}, on));
    });
  };
  CHECK_THAT(error(machine(0, std::nullopt)), Contains("no GPU is visible (no driver)"));
  CHECK_THAT(error(machine(2, "")), Contains("CUDA_VISIBLE_DEVICES='' shows none of 2"));
}

TEST_CASE("a plain number of workers runs anywhere, with a remark if GPUs are expected",
          "[worker-count]") {
  CHECK(decide_worker_count(number(8), machine(0, std::nullopt)).remark.empty());
  CHECK(decide_worker_count(number(8), machine(8, std::nullopt)).remark.empty());
  CHECK(decide_worker_count(number(8), machine(1, "")).remark.empty());
  CHECK(decide_worker_count(number(8), machine(1, "-1")).remark.empty());
  CHECK_THAT(decide_worker_count(number(2), machine(0, "0,1")).remark,
             Contains("no GPU is visible"));
  const WorkerCount crowded = decide_worker_count(number(8), machine(4, "2,3"));
  CHECK(crowded.workers == 8);
  CHECK_THAT(crowded.remark, Contains("8 workers") && Contains("2 visible GPUs") &&
                                 Contains("-n 2") && Contains("CUDA_VISIBLE_DEVICES="));
}

TEST_CASE("a single worker without GPUs does not wait for the driver", "[worker-count]") {
  Machine slow = machine(1, std::nullopt);
  slow.find_gpus = []() -> GpuInventory { throw std::logic_error("NVML was asked"); };
  CHECK(decide_worker_count(number(1), slow).workers == 1);
}

TEST_CASE("a death by signal is the cause of exit codes that follow from it", "[verdict]") {
  const Ending ok{0, 10, W_EXITCODE(0, 0)};
  const Ending noticed{1, 11, W_EXITCODE(1, 0)};
  const Ending later{2, 12, W_EXITCODE(7, 0)};
  const Ending killed{3, 13, W_EXITCODE(0, SIGKILL)};
  CHECK(first_cause(std::vector{ok, noticed, later}).rank == 1);
  CHECK(first_cause(std::vector{ok, noticed, later, killed}).rank == 3);
}

TEST_CASE("a verdict is one sentence with rank, pid, cause and consequences", "[verdict]") {
  using Seconds = std::chrono::duration<double>;
  CHECK(
      verdict({.first = {3, 4711, W_EXITCODE(0, SIGKILL)}, .others = 7, .after = Seconds(12.52)}) ==
      "rank 3 (pid 4711) was killed by SIGKILL after 12.5 s; 7 other ranks stopped because of "
      "it");
  CHECK(verdict({.first = {0, 5, W_EXITCODE(3, 0)}, .others = 1, .after = Seconds(0)}) ==
        "rank 0 (pid 5) exited with code 3 after 0.0 s; 1 other rank stopped because of it");
  CHECK(verdict({.first = {0, 5, W_EXITCODE(3, 0)}, .others = 0, .after = Seconds(1)}) ==
        "rank 0 (pid 5) exited with code 3 after 1.0 s");
}
