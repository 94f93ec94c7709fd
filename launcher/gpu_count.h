// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddp::launcher {

// The machine's GPUs in NVML's order.
struct GpuInventory {
  std::vector<std::string> uuids;  // one per GPU, "GPU-8f4a…"; may be empty strings
  std::string problem;             // why there are none; empty if there are some
};

// Asks NVML, loaded at run time: no CUDA context is made, and a machine without a driver is no
// error.
[[nodiscard]] GpuInventory find_gpus();

// How many of them CUDA would show under this CUDA_VISIBLE_DEVICES (nullopt: unset, all). The list
// ends at the first entry that names no GPU (-1, too large, unknown UUID); one named twice makes
// CUDA show none. A MIG instance is taken on trust.
[[nodiscard]] int visible_gpus(const GpuInventory& gpus,
                               const std::optional<std::string>& cuda_visible_devices);

}  // namespace ddp::launcher
