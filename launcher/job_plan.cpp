// SPDX-License-Identifier: MIT
#include "launcher/job_plan.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "ddp/base/cpu_count.h"
#include "launcher/command.h"
#include "launcher/fellow_launchers.h"
#include "launcher/launch_error.h"
#include "launcher/log_route.h"
#include "launcher/placement.h"
#include "launcher/worker_count.h"

namespace ddp::launcher {
namespace {

constexpr const char* kSharingRemark =
    "workers may share GPUs (--oversubscribe): this can check results, but not measure speed";

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

EnvironmentBlock own_environment() {
  EnvironmentBlock block;
  for (char** entry = environ; *entry != nullptr; ++entry) block.emplace_back(*entry);
  return block;
}

Machine this_machine() {
  Machine machine;
  machine.find_gpus = [found = std::optional<GpuInventory>()]() mutable {
    if (!found) found = find_gpus();
    return *found;
  };
  machine.cuda_visible_devices = environment_variable("CUDA_VISIBLE_DEVICES");
  machine.usable_cpus = usable_cpus();
  machine.allowed_cpus = affinity_cpus();
  return machine;
}

// The user's limit; this process raises its own.
std::optional<rlimit> descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? std::optional(limit) : std::nullopt;
}

WorkerPlan plan_workers(const Options& options) {
  WorkerPlan plan;
  plan.command =
      resolve_command(options.program, environment_variable("PATH").value_or("/bin:/usr/bin"));
  plan.environment = own_environment();
  plan.descriptors = descriptor_limit();
  plan.logs = options.logs;
  if (options.grace) {
    plan.failure_grace = std::min(plan.failure_grace, *options.grace);
    plan.keyboard_grace = plan.outside_grace = *options.grace;
  }
  plan.verbose = options.verbose;
  return plan;
}

JobContext describe_workers(const Options& options, int workers, int cpus) {
  JobContext job;
  job.usable_cpus = cpus;
  job.node_rank = options.nodes.rank.value_or(0);
  job.node_count = options.nodes.count;
  job.local_world_size = workers;
  job.first_rank = job.node_rank * workers;
  job.world_size = job.node_count * workers;
  job.max_restarts = options.max_restarts;
  job.role = options.role;
  job.store = options.nodes.endpoint;
  job.agent_hosts_store = options.store_host == StoreHost::kAgent;
  job.run_id = options.nodes.run_id.value_or("");
  job.rank0_on_terminal =
      route(options.logs, 0, 0, Channel::kOut).to_console && ::isatty(STDOUT_FILENO) == 1;
  job.oversubscribe = options.placement.oversubscribe;
  return job;
}

}  // namespace

JobPlan plan_job(const Options& options) {
  JobPlan plan{plan_workers(options), {}, {}};
  Machine machine = this_machine();
  const std::string chosen = choose_gpus(options.placement, machine);
  const WorkerCount count =
      decide_worker_count(options.workers, machine, options.placement.oversubscribe);
  require_descriptors(count.workers);
  plan.job = describe_workers(options, count.workers, machine.usable_cpus);
  const bool tells_devices = options.verbose || options.action == Options::Action::kDryRun;
  Placements placements =
      place_workers(options.placement, count.workers, machine,
                    tells_devices ? DeviceNames::kNeeded : DeviceNames::kNotNeeded);
  plan.job.placements = std::move(placements.by_local_rank);
  plan.remarks = std::move(placements.remarks);
  for (const std::string& remark :
       {chosen, count.remark, std::string(options.placement.oversubscribe ? kSharingRemark : ""),
        remark_on_unused_nodes(options.nodes, ::getenv),
        remark_on_bound_launcher(count.workers, machine.allowed_cpus, ::getenv)}) {
    if (!remark.empty()) plan.remarks.push_back(remark);
  }
  return plan;
}

void check_shown_ranks(const Show& show, int world_size) {
  for (const int rank : show.ranks) {
    if (rank < world_size) continue;
    throw LaunchError(fmt::format("--show: there is no rank {} among {} worker{}", rank, world_size,
                                  world_size == 1 ? "" : "s"));
  }
}

std::string describe_job(const WorkerPlan& workers, const JobContext& job) {
  return fmt::format("{} worker{} of {}, store at {}, run id {}, OMP_NUM_THREADS={} unless set",
                     job.world_size, job.world_size == 1 ? "" : "s", workers.command.path,
                     to_string(job.store), job.run_id, omp_threads_per_worker(job));
}

}  // namespace ddp::launcher
