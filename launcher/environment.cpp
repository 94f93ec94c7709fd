// SPDX-License-Identifier: MIT
#include "launcher/environment.h"

#include <algorithm>
#include <string_view>

#include "ddp/base/cpu_count.h"
#include "ddp/base/worker_env.h"

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

void set_if_missing(EnvironmentBlock& block, std::string_view name, const std::string& value) {
  const auto is_it = [name](const std::string& entry) { return defines(entry, name); };
  if (std::ranges::none_of(block, is_it)) set(block, name, value);
}

std::string last_words(const JobContext& job, int local_rank, const char* file) {
  if (job.error_directory.empty()) return "";
  return job.error_directory + "/" + std::to_string(local_rank) + "/" + file;
}

WorkerEnv worker_env(const JobContext& job, int local_rank) {
  return {.rank = job.first_rank + local_rank,
          .world_size = job.world_size,
          .local_rank = local_rank,
          .local_world_size = job.local_world_size,
          .node_rank = job.node_rank,
          .master = job.store,
          .restart_count = job.restart_count,
          .run_id = job.run_id,
          .agent_hosts_store = job.agent_hosts_store,
          .shares_gpus = job.oversubscribe,
          .node_count = job.node_count,
          .max_restarts = job.max_restarts,
          .role = job.role};
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

int omp_threads(const JobContext& job, const Placement& placement) {
  return placement.omp_threads.value_or(omp_threads_per_worker(job));
}

}  // namespace

int omp_threads_per_worker(const JobContext& job) {
  return cpus_per_worker(job.usable_cpus, job.local_world_size);
}

Placement placement_of(const JobContext& job, int local_rank) {
  if (job.placements.empty()) return {};
  return job.placements.at(static_cast<std::size_t>(local_rank));
}

EnvironmentBlock worker_environment(const EnvironmentBlock& inherited, const JobContext& job,
                                    int local_rank) {
  const WorkerEnv env = worker_env(job, local_rank);
  const Placement placement = placement_of(job, local_rank);
  const EnvironmentChanges changes = to_environment(env, omp_threads(job, placement));
  EnvironmentBlock block = inherited;
  for (const std::string& name : changes.unset) remove(block, name);
  for (const auto& [name, value] : changes.set) set(block, name, value);
  for (const auto& [name, value] : changes.set_if_missing) set_if_missing(block, name, value);
  set(block, "TORCHELASTIC_ERROR_FILE", last_words(job, local_rank, "error.json"));
  for (const auto& [name, value] : placement.environment) set(block, name, value);
  if (job.oversubscribe) {
    for (const auto& [name, value] : sharing_gpus(env.rank, job.on_one_host)) {
      set_if_missing(block, name, value);
    }
  }
  if (job.rank0_on_terminal && env.rank == 0) set(block, "DDP_LAUNCH_TTY", "1");
  const std::string crash_file = last_words(job, local_rank, "crash.txt");
  if (!crash_file.empty()) set(block, "DDP_CRASH_FILE", crash_file);
  if (!job.step_file.empty()) set(block, "DDP_STEP_FILE", job.step_file);
  return block;
}

EnvironmentBlock contract_entries(const EnvironmentBlock& inherited, const JobContext& job,
                                  int local_rank) {
  const EnvironmentBlock own = worker_environment({}, job, local_rank);
  EnvironmentBlock block = worker_environment(inherited, job, local_rank);
  std::erase_if(block, [&own](const std::string& entry) {
    const std::string name = entry.substr(0, entry.find('='));
    return std::ranges::none_of(own, [&](const std::string& e) { return defines(e, name); });
  });
  return block;
}

}  // namespace ddp::launcher
