// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/cpu_list.h"
#include "launcher/machine.h"
#include "launcher/options.h"

namespace ddp::launcher {

// Where a worker runs.
struct Placement {
  std::string device = "-";        // "GPU 2": what its LOCAL_RANK means
  CpuList cpus = {};               // it is kept on them; empty: wherever its launcher may run
  std::optional<int> omp_threads;  // OMP_NUM_THREADS of a worker that is kept on CPUs
  std::vector<std::pair<std::string, std::string>> environment = {};  // for CUDA
};

// ", GPU 2, CPUs 0-3", as far as there is something to say.
[[nodiscard]] std::string describe_placement(const Placement& placement);

struct Placements {
  std::vector<Placement> by_local_rank;
  std::vector<std::string> remarks;  // sentences for the user
};

// --gpus names physical GPUs and takes the place of CUDA_VISIBLE_DEVICES; returns a remark if that
// was set, or nothing. Throws LaunchError if an entry is wrong.
[[nodiscard]] std::string choose_gpus(const PlacementOptions& options, Machine& machine);

// Whether it is worth asking NVML which GPU each worker gets.
enum class DeviceNames { kNotNeeded, kNeeded };

// LOCAL_RANK counts in the machine's cuda_visible_devices; workers share GPUs only if the options
// say so. CUDA shows a process one MIG instance, so workers that share see each their own. Bound
// workers get OMP_NUM_THREADS for the CPUs that they need not share, as far as the quota goes.
// Throws LaunchError if --gpus names too few GPUs, or if workers cannot be bound as asked.
[[nodiscard]] Placements place_workers(const PlacementOptions& options, int workers,
                                       const Machine& machine, DeviceNames names);

}  // namespace ddp::launcher
