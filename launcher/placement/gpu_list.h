// SPDX-License-Identifier: MIT
//
// Lists of GPUs, as in CUDA_VISIBLE_DEVICES and --gpus. An index counts in PCI order. That is
// CUDA's own order if CUDA_DEVICE_ORDER=PCI_BUS_ID, which --gpus sets, or if all GPUs are of the
// same model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/placement/gpu_inventory.h"

namespace ddp::launcher {

// A GPU in a list, or a MIG instance.
struct ListedGpu {
  std::string name;                  // "2", or a complete UUID
  std::optional<std::size_t> index;  // place in the inventory; empty for a MIG instance not in it

  [[nodiscard]] bool is_mig() const { return name.starts_with("MIG-"); }
};

// The GPUs that CUDA shows under this CUDA_VISIBLE_DEVICES (nullopt: unset, all), in its order;
// LOCAL_RANK is an index into this list. The list ends at the first entry that names no GPU (-1,
// too large, unknown UUID), and is empty if one is named twice. MIG instances are not checked.
[[nodiscard]] std::vector<ListedGpu> visible_gpus(
    const GpuInventory& inventory, const std::optional<std::string>& cuda_visible_devices);

// The GPUs that --gpus names by index or (abbreviated) UUID. Throws LaunchError, listing the
// machine's GPUs, if an entry names none, or the same one as another entry.
[[nodiscard]] std::vector<ListedGpu> chosen_gpus(const GpuInventory& inventory,
                                                 const std::vector<std::string>& entries);

// A value for CUDA_VISIBLE_DEVICES: all by index, or all by UUID.
[[nodiscard]] std::string cuda_list(const GpuInventory& inventory,
                                    const std::vector<ListedGpu>& gpus);

// The GPU of each worker, by local rank: the next of the list, starting again from the beginning if
// workers may share.
[[nodiscard]] std::vector<std::optional<ListedGpu>> deal_gpus(const std::vector<ListedGpu>& list,
                                                              int workers, bool may_share);

}  // namespace ddp::launcher
