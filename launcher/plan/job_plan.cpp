// SPDX-License-Identifier: MIT
#include "launcher/plan/job_plan.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>

#include "ddp/base/rank_list.h"
#include "ddp/base/system/cpu_count.h"
#include "ddp/base/system/descriptor_limit.h"
#include "ddp/base/worker_env.h"
#include "launcher/launch_error.h"
#include "launcher/options/command.h"
#include "launcher/options/fellow_launchers.h"
#include "launcher/options/likely_mistakes.h"
#include "launcher/output/log_route.h"
#include "launcher/placement/placement.h"
#include "launcher/placement/worker_count.h"
#include "launcher/plan/environment.h"

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

// Raises the soft limit of open files. Throws LaunchError if it is still too low for the workers'
// output.
void require_descriptors(int workers) {
  raise_descriptor_limit();
  rlimit limit{};
  const rlim_t needed = 5 * static_cast<rlim_t>(workers) + 32;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && needed > limit.rlim_cur) {
    throw LaunchError(fmt::format("{} {} {} open files, but the limit is {} (ulimit -Hn)",
                                  counted(workers, "worker"), workers == 1 ? "needs" : "need",
                                  needed, limit.rlim_cur));
  }
}

// A path to it, or nothing if that is another kind of file. The terminal itself may have no name
// here, as in a container that was entered from outside.
std::string terminal_of_stdout() {
  return ::isatty(STDOUT_FILENO) != 0 ? fmt::format("/proc/{}/fd/{}", ::getpid(), STDOUT_FILENO)
                                      : "";
}

WorkerPlan plan_workers(const Options& options, int cpus) {
  WorkerPlan plan;
  plan.command =
      resolve_command(options.program, environment_variable("PATH").value_or("/bin:/usr/bin"));
  plan.environment = own_environment();
  plan.descriptors = descriptor_limit();
  plan.logs = options.logs;
  plan.store_host = options.store_host;
  plan.role = options.role;
  plan.max_restarts = options.max_restarts;
  plan.usable_cpus = cpus;
  plan.oversubscribe = options.placement.oversubscribe;
  if (route(options.logs, 0, 0, Channel::kOut).to_console) {
    plan.rank0_terminal = terminal_of_stdout();
  }
  if (options.grace) {
    plan.failure_grace =
        options.failure_grace.value_or(std::min(plan.failure_grace, *options.grace));
    plan.keyboard_grace = plan.outside_grace = *options.grace;
  }
  plan.verbose = options.verbose;
  return plan;
}

JobLayout assumed_layout(const NodeOptions& options, int workers) {
  if (workers > kMaxWorldSize / options.count) {
    throw LaunchError(
        fmt::format("{} on each of {} (--nnodes) are more ranks than a job can have, {}",
                    counted(static_cast<std::size_t>(workers), "worker"),
                    counted(static_cast<std::size_t>(options.count), "node"), kMaxWorldSize));
  }
  const int node_rank = options.rank.value_or(0);
  return {.node_rank = node_rank,
          .node_count = options.count,
          .local_world_size = workers,
          .first_rank = node_rank * workers,
          .world_size = options.count * workers,
          .store = options.endpoint,
          .run_id = options.run_id.value_or(""),
          .on_one_host = options.count == 1 || options.on_one_host};
}

}  // namespace

JobPlan plan_job(const Options& options) {
  Machine machine = this_machine();
  JobPlan plan{plan_workers(options, machine.usable_cpus), {}, {}};
  const std::string chosen = choose_gpus(options.placement, machine);
  const WorkerCount count =
      decide_worker_count(options.workers, machine, options.placement.oversubscribe);
  require_descriptors(count.workers);
  plan.layout = assumed_layout(options.nodes, count.workers);
  const bool tells_devices = options.verbose || options.action == Options::Action::kDryRun;
  Placements placements =
      place_workers(options.placement, count.workers, machine,
                    tells_devices ? DeviceNames::kNeeded : DeviceNames::kNotNeeded);
  plan.workers.placements = std::move(placements.by_local_rank);
  plan.remarks = std::move(placements.remarks);
  for (const std::string& remark :
       {chosen, count.remark, std::string(options.placement.oversubscribe ? kSharingRemark : ""),
        remark_on_flag_behind_program(options), remark_on_unused_nodes(options.nodes, ::getenv),
        remark_on_bound_launcher(count.workers, machine.allowed_cpus, ::getenv)}) {
    if (!remark.empty()) plan.remarks.push_back(remark);
  }
  std::ranges::move(remarks_on_variables(plan.workers.environment),
                    std::back_inserter(plan.remarks));
  return plan;
}

// One filter may be meant for nodes with different numbers of workers, so it may name more.
void check_shown_ranks(const LogOptions& logs, const JobLayout& layout) {
  const int workers = layout.world_size;
  const std::string among = "among " + counted(workers, "worker");
  const auto is_there = [workers](int rank) { return rank < workers; };
  const auto absent = std::ranges::find_if_not(logs.show.ranks, is_there);
  if (absent != logs.show.ranks.end()) {
    throw LaunchError(fmt::format("--show: there is no rank {} {}", *absent, among));
  }
  const auto& filter = logs.local_ranks_filter;
  if (filter && layout.node_count == 1 && std::ranges::none_of(*filter, is_there)) {
    throw LaunchError(fmt::format("--local_ranks_filter {}: there is no such local rank {}",
                                  fmt::join(*filter, ","), among));
  }
}

std::string describe_job(const WorkerPlan& plan, const JobLayout& layout) {
  return fmt::format("{} of {}, store at {}, run id {}, OMP_NUM_THREADS={} unless set",
                     counted(layout.world_size, "worker"), plan.command.path,
                     to_string(layout.store), layout.run_id, omp_threads_per_worker(plan, layout));
}

}  // namespace ddp::launcher
