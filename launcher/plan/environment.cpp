// SPDX-License-Identifier: MIT
#include "launcher/plan/environment.h"

#include <algorithm>
#include <string_view>

#include "ddp/base/system/cpu_count.h"
#include "ddp/base/worker_env.h"
#include "launcher/output/log_route.h"

namespace ddp::launcher {
namespace {

using Variables = std::vector<EnvironmentVariable>;

bool defines(const std::string& entry, std::string_view name) {
  return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
}

void remove(EnvironmentBlock& block, std::string_view name) {
  std::erase_if(block, [name](const std::string& entry) { return defines(entry, name); });
}

void set(EnvironmentBlock& block, std::string_view name, const std::string& value) {
  remove(block, name);
  block.push_back(std::string(name) + "=" + value);
}

const char* find(const EnvironmentBlock& block, std::string_view name) {
  const auto is_it = [name](const std::string& entry) { return defines(entry, name); };
  const auto found = std::ranges::find_if(block, is_it);
  return found == block.end() ? nullptr : found->c_str() + name.size() + 1;
}

// An empty value counts as missing.
void set_if_missing(EnvironmentBlock& block, std::string_view name, const std::string& value) {
  const char* inherited = find(block, name);
  if (inherited == nullptr || *inherited == '\0') set(block, name, value);
}

WorkerEnv worker_env(const WorkerPlan& plan, const JobLayout& layout, const Attempt& attempt,
                     int local_rank) {
  return {.rank = layout.first_rank + local_rank,
          .world_size = layout.world_size,
          .local_rank = local_rank,
          .local_world_size = layout.local_world_size,
          .node_rank = layout.node_rank,
          .master = layout.store,
          .restart_count = attempt.restart_count,
          .run_id = layout.run_id,
          .agent_hosts_store = plan.store_host == StoreHost::kAgent,
          .shares_gpus = plan.oversubscribe,
          .node_count = layout.node_count,
          .max_restarts = plan.max_restarts,
          .role = plan.role};
}

// NCCL before 2.30 refuses two ranks of one host on one GPU. So each rank pretends to be on its own
// host (NCCL_HOSTID), and they communicate by sockets, with few blocks each.
Variables sharing_gpus(int rank, bool on_one_host) {
  Variables variables = {{"NCCL_HOSTID", "ddp-rank-" + std::to_string(rank)},
                         {"NCCL_NET", "Socket"},
                         {"NCCL_NET_PLUGIN", "none"},
                         {"NCCL_IB_DISABLE", "1"},
                         {"NCCL_SOCKET_FAMILY", "AF_INET"},
                         {"NCCL_P2P_DISABLE", "1"},
                         {"NCCL_SHM_DISABLE", "1"},
                         {"NCCL_NVLS_ENABLE", "0"},
                         {"NCCL_MNNVL_ENABLE", "0"},
                         {"NCCL_COLLNET_ENABLE", "0"},
                         {"NCCL_MAX_CTAS", "4"},
                         {"NCCL_RAS_ENABLE", "0"}};
  // NCCL uses the loopback interface only if it is named explicitly.
  if (on_one_host) variables.emplace_back("NCCL_SOCKET_IFNAME", "lo");
  return variables;
}

}  // namespace

int omp_threads_per_worker(const WorkerPlan& plan, const JobLayout& layout) {
  return cpus_per_worker(plan.usable_cpus, layout.local_world_size);
}

EnvironmentBlock worker_environment(const WorkerPlan& plan, const JobLayout& layout,
                                    const Attempt& attempt, int local_rank) {
  const WorkerEnv env = worker_env(plan, layout, attempt, local_rank);
  const Placement placement = placement_of(plan, local_rank);
  const int omp_threads = placement.omp_threads.value_or(omp_threads_per_worker(plan, layout));
  EnvironmentBlock block = plan.environment;
  const EnvironmentChanges changes =
      to_environment(env, omp_threads, [&block](const char* name) { return find(block, name); });
  for (const std::string& name : changes.unset) remove(block, name);
  for (const auto& [name, value] : changes.set) set(block, name, value);
  for (const auto& [name, value] : changes.set_if_missing) set_if_missing(block, name, value);
  set(block, "TORCHELASTIC_ERROR_FILE", attempt.folder.error_file(local_rank));
  for (const auto& [name, value] : placement.environment) set(block, name, value);
  // A Python program that is executed by itself; others get -u.
  const bool is_python = !plan.command.argv.empty() && plan.command.argv.front().ends_with(".py");
  if (is_python) set_if_missing(block, "PYTHONUNBUFFERED", "1");
  if (plan.oversubscribe) {
    for (const auto& [name, value] : sharing_gpus(env.rank, layout.on_one_host)) {
      set_if_missing(block, name, value);
    }
  }
  if (!plan.rank0_terminal.empty() && env.rank == 0) {
    set(block, "DDP_LAUNCH_TTY", plan.rank0_terminal);
  }
  if (!attempt.folder.path.empty()) {
    set(block, "DDP_CRASH_FILE", attempt.folder.crash_file(local_rank));
    if (has_files(plan.logs)) set(block, "DDP_EVENTS_FILE", attempt.folder.events_file(local_rank));
  }
  if (!layout.launch_id.empty()) set(block, "DDP_LAUNCH_ID", layout.launch_id);
  if (!attempt.worker_slots.empty()) set(block, "DDP_WORKER_SLOTS", attempt.worker_slots);
  return block;
}

EnvironmentBlock contract_entries(const WorkerPlan& plan, const JobLayout& layout,
                                  const Attempt& attempt, int local_rank) {
  WorkerPlan bare = plan;
  bare.environment.clear();
  const EnvironmentBlock own = worker_environment(bare, layout, attempt, local_rank);
  EnvironmentBlock block = worker_environment(plan, layout, attempt, local_rank);
  std::erase_if(block, [&own](const std::string& entry) {
    const std::string name = entry.substr(0, entry.find('='));
    return std::ranges::none_of(own, [&](const std::string& e) { return defines(e, name); });
  });
  return block;
}

}  // namespace ddp::launcher
