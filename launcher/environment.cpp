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

Variables contract(const JobContext& job, int rank) {
  const std::string rank_text = std::to_string(rank);
  const std::string size_text = std::to_string(job.world_size);
  return {{"RANK", rank_text},
          {"LOCAL_RANK", rank_text},
          {"GROUP_RANK", "0"},
          {"ROLE_RANK", rank_text},
          {"ROLE_NAME", "default"},
          {"LOCAL_WORLD_SIZE", size_text},
          {"WORLD_SIZE", size_text},
          {"GROUP_WORLD_SIZE", "1"},
          {"ROLE_WORLD_SIZE", size_text},
          {"MASTER_ADDR", job.store.host},
          {"MASTER_PORT", std::to_string(job.store.port)},
          {"TORCHELASTIC_RESTART_COUNT", "0"},
          {"TORCHELASTIC_MAX_RESTARTS", "0"},
          {"TORCHELASTIC_RUN_ID", job.run_id},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

// NCCL before 2.30 refuses two ranks of one host on one GPU: so each rank claims a host of its own
// (NCCL_HOSTID), and they talk over loopback sockets with few blocks each.
Variables sharing_gpus(int rank) {
  return {{"NCCL_HOSTID", "ddp-rank-" + std::to_string(rank)},
          {"NCCL_NET", "Socket"},
          {"NCCL_NET_PLUGIN", "none"},
          {"NCCL_IB_DISABLE", "1"},
          {"NCCL_SOCKET_IFNAME", "lo"},
          {"NCCL_SOCKET_FAMILY", "AF_INET"},
          {"NCCL_P2P_DISABLE", "1"},
          {"NCCL_SHM_DISABLE", "1"},
          {"NCCL_NVLS_ENABLE", "0"},
          {"NCCL_MNNVL_ENABLE", "0"},
          {"NCCL_COLLNET_ENABLE", "0"},
          {"NCCL_MAX_CTAS", "4"},
          {"NCCL_RAS_ENABLE", "0"}};
}

}  // namespace

int omp_threads_per_worker(const JobContext& job) {
  return std::max(1, job.usable_cpus / job.world_size);
}

EnvironmentBlock worker_environment(const EnvironmentBlock& inherited, const JobContext& job,
                                    int rank) {
  EnvironmentBlock block = inherited;
  for (const auto& [name, value] : contract(job, rank)) set(block, name, value);
  set_if_missing(block, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  set_if_missing(block, "OMP_NUM_THREADS", std::to_string(omp_threads_per_worker(job)));
  remove(block, "DDP_OVERSUBSCRIBE");
  if (job.oversubscribe) {
    set(block, "DDP_OVERSUBSCRIBE", "1");
    for (const auto& [name, value] : sharing_gpus(rank)) set_if_missing(block, name, value);
  }
  remove(block, "DDP_LAUNCH_TTY");
  if (job.rank0_on_terminal && rank == 0) set(block, "DDP_LAUNCH_TTY", "1");
  return block;
}

}  // namespace ddp::launcher
