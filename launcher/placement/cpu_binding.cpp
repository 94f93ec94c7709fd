// SPDX-License-Identifier: MIT
#include "launcher/placement/cpu_binding.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "launcher/launch_error.h"

namespace ddp::launcher {
namespace {

// The hyperthreads of each core, neighbours one after the other.
std::vector<CpuList> cores_of(const CpuTopology& topology) {
  std::vector<CpuTopology::Cpu> cpus = topology.cpus;
  std::ranges::sort(cpus, {}, [](const CpuTopology::Cpu& cpu) {
    return std::tuple(cpu.node, cpu.core, cpu.number);
  });
  std::vector<CpuList> cores;
  int core = -1;
  for (const CpuTopology::Cpu& cpu : cpus) {
    if (cpu.core != core) cores.emplace_back();
    core = cpu.core;
    cores.back().push_back(cpu.number);
  }
  return cores;
}

std::vector<CpuList> single_threads(const std::vector<CpuList>& cores) {
  std::vector<CpuList> threads;
  for (const CpuList& core : cores) {
    for (const int cpu : core) threads.push_back({cpu});
  }
  return threads;
}

}  // namespace

std::vector<CpuList> bind_to_cores(const CpuTopology& topology, int workers) {
  const auto count = static_cast<std::size_t>(workers);
  if (topology.cpus.size() < count) {
    throw LaunchError(fmt::format(
        "--bind=core: {} workers need CPUs of their own, but may use {} ({}); use -n {}, or leave "
        "out --bind",
        workers, topology.cpus.size(), to_string(topology.all()), topology.cpus.size()));
  }
  std::vector<CpuList> units = cores_of(topology);
  if (units.size() < count) units = single_threads(units);
  std::vector<CpuList> shares(count);
  for (std::size_t worker = 0; worker < count; ++worker) {
    const std::size_t end = (worker + 1) * units.size() / count;
    for (std::size_t unit = worker * units.size() / count; unit < end; ++unit) {
      shares[worker].insert(shares[worker].end(), units[unit].begin(), units[unit].end());
    }
    std::ranges::sort(shares[worker]);
  }
  return shares;
}

std::vector<CpuList> bind_to_nodes(const CpuTopology& topology,
                                   const std::vector<std::optional<int>>& nodes) {
  std::vector<CpuList> shares;
  for (const std::optional<int> node : nodes) {
    shares.push_back(node ? topology.on_node(*node) : topology.all());
    if (!shares.back().empty()) continue;
    throw LaunchError(
        fmt::format("--bind=numa: the GPU of local rank {} is on NUMA node {}, but this job may "
                    "only use CPUs of other nodes ({})",
                    shares.size() - 1, *node, to_string(topology.all())));
  }
  return shares;
}

}  // namespace ddp::launcher
