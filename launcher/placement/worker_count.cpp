// SPDX-License-Identifier: MIT
#include "launcher/placement/worker_count.h"

#include <fmt/core.h>

#include <algorithm>

#include "ddp/base/rank_list.h"
#include "launcher/launch_error.h"
#include "launcher/placement/gpu_list.h"

namespace ddp::launcher {
namespace {

constexpr const char* kNoGpuRemark = "no GPU is visible ({}): the workers will run on the CPU";

// "" and "-1" are the usual ways to ask for the CPU.
bool hides_all_gpus(const std::optional<std::string>& cuda_visible_devices) {
  return cuda_visible_devices && (cuda_visible_devices->empty() || *cuda_visible_devices == "-1");
}

bool names_gpus(const std::optional<std::string>& cuda_visible_devices) {
  return cuda_visible_devices && !hides_all_gpus(cuda_visible_devices);
}

std::string reason_for_none(const GpuInventory& gpus, const Machine& machine) {
  if (!gpus.problem.empty()) return gpus.problem;
  return fmt::format("CUDA_VISIBLE_DEVICES='{}' shows none of {}",
                     machine.cuda_visible_devices.value_or(""), gpus.gpus.size());
}

bool is_on_mig(const GpuInventory& gpus, const ListedGpu& gpu) {
  return gpu.is_mig() || !gpus.gpus[*gpu.index].mig.empty();
}

// CUDA shows a process only the first of several MIG instances. Workers that share GPUs get a list
// of their own each.
int count_visible(const GpuInventory& gpus, const Machine& machine, bool may_share_gpus) {
  const std::vector<ListedGpu> list = visible_gpus(gpus, machine.cuda_visible_devices);
  const bool all_on_mig =
      std::ranges::all_of(list, [&gpus](const ListedGpu& each) { return is_on_mig(gpus, each); });
  return !list.empty() && all_on_mig && !may_share_gpus ? 1 : static_cast<int>(list.size());
}

WorkerCount count_for_number(int workers, const Machine& machine, bool may_share_gpus) {
  const bool expects_gpus = names_gpus(machine.cuda_visible_devices);
  if (hides_all_gpus(machine.cuda_visible_devices) || (workers == 1 && !expects_gpus)) {
    return {workers, ""};
  }
  const GpuInventory gpus = machine.find_gpus();
  const int visible = count_visible(gpus, machine, may_share_gpus);
  if (visible == 0 && expects_gpus) {
    return {workers, fmt::format(kNoGpuRemark, reason_for_none(gpus, machine))};
  }
  if (visible == 0 || workers <= visible || may_share_gpus) return {workers, ""};
  return {workers, fmt::format("{} workers, but {}: a GPU takes one rank, so use "
                               "-n {}, --oversubscribe to let them share, or "
                               "CUDA_VISIBLE_DEVICES= to run on the CPU",
                               workers, counted(visible, "visible GPU"), visible)};
}

}  // namespace

WorkerCount decide_worker_count(const WorkerRequest& request, const Machine& machine,
                                bool may_share_gpus) {
  using Kind = WorkerRequest::Kind;
  if (request.kind == Kind::kNumber) {
    return count_for_number(request.number, machine, may_share_gpus);
  }
  if (request.kind == Kind::kCpu) return {machine.usable_cpus, ""};
  const GpuInventory gpus = machine.find_gpus();
  const int visible = count_visible(gpus, machine, may_share_gpus);
  if (visible > 0) return {visible, ""};
  const std::string reason = reason_for_none(gpus, machine);
  if (request.kind == Kind::kGpu) {
    throw LaunchError(fmt::format("--nproc_per_node=gpu: no GPU is visible ({})", reason));
  }
  if (hides_all_gpus(machine.cuda_visible_devices)) return {machine.usable_cpus, ""};
  return {machine.usable_cpus, fmt::format(kNoGpuRemark, reason)};
}

std::string remark_on_bound_launcher(int workers, const CpuList& allowed,
                                     const EnvReader::Lookup& environment) {
  const EnvReader env(environment);
  const bool is_bound = env.text("OMPI_MCA_orte_bound_at_launch") == "1" && !env.has("RANK");
  if (!is_bound || allowed.size() >= static_cast<std::size_t>(workers)) return "";
  return fmt::format(
      "mpirun has bound ddp-launch to CPU{} {}, which {} workers will share; mpirun --bind-to none "
      "leaves the CPUs to ddp-launch",
      allowed.size() == 1 ? "" : "s", to_string(allowed), workers);
}

}  // namespace ddp::launcher
