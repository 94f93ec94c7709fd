// SPDX-License-Identifier: MIT
#include "launcher/placement/placement.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "launcher/launch_error.h"
#include "launcher/placement/cpu_binding.h"
#include "launcher/placement/gpu_list.h"

namespace ddp::launcher {
namespace {

using Binding = PlacementOptions::Binding;
using DealtGpus = std::vector<std::optional<ListedGpu>>;  // by local rank

struct Bindings {
  std::vector<CpuList> cpus;
  std::vector<std::string> remarks = {};
};

bool has_mig(const std::vector<ListedGpu>& list) {
  return std::ranges::any_of(list, &ListedGpu::is_mig);
}

// Every worker must get one of the GPUs that --gpus names.
void check_chosen(const PlacementOptions& options, const std::vector<ListedGpu>& list, int workers,
                  const GpuInventory& inventory) {
  if (!options.gpus || options.oversubscribe || workers == 1) return;
  if (list.size() < static_cast<std::size_t>(workers)) {
    throw LaunchError(fmt::format(
        "--gpus: {} for {} workers; this host has {}; name more, use -n {}, or let workers share "
        "them (--oversubscribe)",
        list.size(), workers, describe_gpus(inventory), list.size()));
  }
  if (has_mig(list)) {
    throw LaunchError(
        fmt::format("--gpus: CUDA shows a process only one MIG instance, and NCCL takes all "
                    "instances of a GPU for one device: {} workers need --oversubscribe",
                    workers));
  }
}

std::string name_of(const std::optional<ListedGpu>& gpu) {
  if (!gpu) return "-";
  return gpu->is_mig() ? gpu->name : fmt::format("GPU {}", *gpu->index);
}

Bindings bind_to_memory(const DealtGpus& gpus, const GpuInventory& inventory,
                        const CpuTopology& topology, const std::string& sysfs) {
  const std::vector<int> all_nodes = topology.nodes();
  std::vector<std::optional<int>> nodes;
  Bindings result;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    if (!gpus[rank]) {
      nodes.emplace_back(all_nodes[rank % all_nodes.size()]);
      continue;
    }
    const std::optional<std::size_t> index = gpus[rank]->index;
    nodes.push_back(index ? node_of_device(sysfs, inventory.gpus[*index].bus_id) : std::nullopt);
    if (nodes.back() || all_nodes.size() == 1) continue;
    result.remarks.push_back(fmt::format(
        "--bind=numa: the NUMA node of {} is not known; local rank {} may use every CPU",
        name_of(gpus[rank]), rank));
  }
  result.cpus = bind_to_nodes(topology, nodes);
  return result;
}

Bindings bind(Binding binding, const DealtGpus& gpus, const GpuInventory& inventory,
              const Machine& machine) {
  if (binding == Binding::kNone) return {std::vector<CpuList>(gpus.size())};
  const CpuTopology topology = read_topology(machine.sysfs, machine.allowed_cpus);
  if (binding == Binding::kCore) return {bind_to_cores(topology, static_cast<int>(gpus.size()))};
  return bind_to_memory(gpus, inventory, topology, machine.sysfs);
}

// The number of CPUs in a worker's mask, divided by the workers with the same mask; with a quota,
// limited by its share of that.
int omp_threads(const std::vector<CpuList>& masks, std::size_t rank, const Machine& machine) {
  const auto sharers = static_cast<std::size_t>(std::ranges::count(masks, masks[rank]));
  std::size_t threads = masks[rank].size() / sharers;
  const auto usable = static_cast<std::size_t>(machine.usable_cpus);
  if (usable < machine.allowed_cpus.size()) threads = std::min(threads, usable / masks.size());
  return static_cast<int>(std::max<std::size_t>(1, threads));
}

std::vector<std::pair<std::string, std::string>> cuda_environment(
    const PlacementOptions& options, const std::optional<ListedGpu>& gpu, int workers,
    const Machine& machine) {
  std::vector<std::pair<std::string, std::string>> variables;
  if (options.gpus) {
    variables.emplace_back("CUDA_VISIBLE_DEVICES", *machine.cuda_visible_devices);
    variables.emplace_back("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  }
  const bool needs_own_list = gpu && gpu->is_mig() && options.oversubscribe && workers > 1;
  if (needs_own_list) variables.emplace_back("CUDA_VISIBLE_DEVICES", gpu->name);
  return variables;
}

}  // namespace

std::string describe_placement(const Placement& placement) {
  std::string text = placement.device == "-" ? "" : ", " + placement.device;
  if (!placement.cpus.empty()) text += ", CPUs " + to_string(placement.cpus);
  return text;
}

std::string choose_gpus(const PlacementOptions& options, Machine& machine) {
  if (!options.gpus) return "";
  const GpuInventory inventory = machine.find_gpus();
  const std::string list = cuda_list(inventory, chosen_gpus(inventory, *options.gpus));
  const std::optional<std::string> before = std::exchange(machine.cuda_visible_devices, list);
  if (!before || *before == list) return "";
  return fmt::format("--gpus={} overrides CUDA_VISIBLE_DEVICES={}", list, *before);
}

Placements place_workers(const PlacementOptions& options, int workers, const Machine& machine,
                         DeviceNames names) {
  const bool asks_nvml = options.gpus || options.binding == Binding::kNuma ||
                         options.oversubscribe || names == DeviceNames::kNeeded;
  const GpuInventory inventory = asks_nvml ? machine.find_gpus() : GpuInventory();
  const std::vector<ListedGpu> list = visible_gpus(inventory, machine.cuda_visible_devices);
  check_chosen(options, list, workers, inventory);
  const DealtGpus gpus = deal_gpus(list, workers, options.oversubscribe);
  Bindings bindings = bind(options.binding, gpus, inventory, machine);
  Placements result{.by_local_rank = {}, .remarks = std::move(bindings.remarks)};
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    Placement& placement = result.by_local_rank.emplace_back();
    placement.device = name_of(gpus[rank]);
    placement.environment = cuda_environment(options, gpus[rank], workers, machine);
    placement.cpus = bindings.cpus[rank];
    if (placement.cpus.empty()) continue;
    placement.omp_threads = omp_threads(bindings.cpus, rank, machine);
  }
  return result;
}

}  // namespace ddp::launcher
