// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/options/options.h"
#include "launcher/placement/cpu_list.h"
#include "launcher/placement/machine.h"

namespace ddp::launcher {

// Where a worker runs.
struct Placement {
  std::string device = "-";        // "GPU 2": the device of its LOCAL_RANK
  CpuList cpus = {};               // it is bound to these; empty: to none
  std::optional<int> omp_threads;  // OMP_NUM_THREADS of a bound worker
  std::vector<std::pair<std::string, std::string>> environment = {};  // for CUDA
};

// ", GPU 2, CPUs 0-3", without the parts that are not set.
[[nodiscard]] std::string describe_placement(const Placement& placement);

struct Placements {
  std::vector<Placement> by_local_rank;
  std::vector<std::string> remarks;  // sentences for the user
};

// Sets CUDA_VISIBLE_DEVICES to the physical GPUs that --gpus names; returns a remark if the
// variable was set before, else an empty text. Throws LaunchError if an entry is wrong.
[[nodiscard]] std::string choose_gpus(const PlacementOptions& options, Machine& machine);

// Whether to ask NVML which GPU each worker gets.
enum class DeviceNames { kNotNeeded, kNeeded };

// LOCAL_RANK is an index into the machine's cuda_visible_devices; workers share GPUs only if the
// options allow it. CUDA shows a process only one MIG instance, so workers that share each see
// their own. Bound workers get an OMP_NUM_THREADS for the CPUs that they do not share, limited by
// the quota. Throws LaunchError if --gpus names too few GPUs, or if workers cannot be bound as
// requested.
[[nodiscard]] Placements place_workers(const PlacementOptions& options, int workers,
                                       const Machine& machine, DeviceNames names);

}  // namespace ddp::launcher
