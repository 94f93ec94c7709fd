// SPDX-License-Identifier: MIT
#include "launcher/environment.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ddp::launcher {
namespace {

using Variables = std::vector<std::pair<std::string_view, std::string>>;

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

std::string error_file(const JobContext& job, int local_rank) {
  if (job.error_directory.empty()) return "";
  return job.error_directory + "/" + std::to_string(local_rank) + "/error.json";
}

Variables contract(const JobContext& job, int local_rank) {
  const std::string rank = std::to_string(job.first_rank + local_rank);
  const std::string world_size = std::to_string(job.world_size);
  return {{"RANK", rank},
          {"LOCAL_RANK", std::to_string(local_rank)},
          {"GROUP_RANK", std::to_string(job.node_rank)},
          {"ROLE_RANK", rank},
          {"ROLE_NAME", job.role},
          {"LOCAL_WORLD_SIZE", std::to_string(job.local_world_size)},
          {"WORLD_SIZE", world_size},
          {"GROUP_WORLD_SIZE", std::to_string(job.node_count)},
          {"ROLE_WORLD_SIZE", world_size},
          {"MASTER_ADDR", job.store.host},
          {"MASTER_PORT", std::to_string(job.store.port)},
          {"TORCHELASTIC_RESTART_COUNT", std::to_string(job.restart_count)},
          {"TORCHELASTIC_MAX_RESTARTS", std::to_string(job.max_restarts)},
          {"TORCHELASTIC_RUN_ID", job.run_id},
          {"TORCHELASTIC_USE_AGENT_STORE", job.agent_hosts_store ? "True" : "False"},
          {"TORCHELASTIC_ERROR_FILE", error_file(job, local_rank)},
          {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"}};
}

// NCCL before 2.30 refuses two ranks of one host on one GPU: so each rank claims a host of its own
// (NCCL_HOSTID), and they talk over sockets with few blocks each.
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
  // NCCL looks at the loopback interface only if it is named.
  if (on_one_host) variables.emplace_back("NCCL_SOCKET_IFNAME", "lo");
  return variables;
}

int omp_threads(const JobContext& job, const Placement& placement) {
  return placement.omp_threads.value_or(omp_threads_per_worker(job));
}

}  // namespace

int omp_threads_per_worker(const JobContext& job) {
  return std::max(1, job.usable_cpus / job.local_world_size);
}

Placement placement_of(const JobContext& job, int local_rank) {
  if (job.placements.empty()) return {};
  return job.placements.at(static_cast<std::size_t>(local_rank));
}

EnvironmentBlock worker_environment(const EnvironmentBlock& inherited, const JobContext& job,
                                    int local_rank) {
  const int rank = job.first_rank + local_rank;
  const Placement placement = placement_of(job, local_rank);
  EnvironmentBlock block = inherited;
  for (const auto& [name, value] : contract(job, local_rank)) set(block, name, value);
  set_if_missing(block, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  set_if_missing(block, "OMP_NUM_THREADS", std::to_string(omp_threads(job, placement)));
  for (const auto& [name, value] : placement.environment) set(block, name, value);
  remove(block, "DDP_OVERSUBSCRIBE");
  if (job.oversubscribe) {
    set(block, "DDP_OVERSUBSCRIBE", "1");
    for (const auto& [name, value] : sharing_gpus(rank, job.on_one_host)) {
      set_if_missing(block, name, value);
    }
  }
  remove(block, "DDP_LAUNCH_TTY");
  if (job.rank0_on_terminal && rank == 0) set(block, "DDP_LAUNCH_TTY", "1");
  remove(block, "DDP_STEP_FILE");
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
