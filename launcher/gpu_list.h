// SPDX-License-Identifier: MIT
//
// Lists of GPUs, as CUDA_VISIBLE_DEVICES and --gpus have them. An index counts in PCI order: that
// is CUDA's own order if CUDA_DEVICE_ORDER=PCI_BUS_ID, which goes with --gpus, or if all GPUs are
// of one model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/gpu_inventory.h"

namespace ddp::launcher {

// A GPU in a list, or an instance of one.
struct ListedGpu {
  std::string name;                  // "2", or a UUID in full
  std::optional<std::size_t> index;  // in the inventory; nothing: a MIG instance not found there

  [[nodiscard]] bool is_mig() const { return name.starts_with("MIG-"); }
};

// What CUDA shows under this CUDA_VISIBLE_DEVICES (nullopt: unset, all), in its order; LOCAL_RANK
// counts in this list. It ends at the first entry that names no GPU (-1, too large, unknown UUID),
// and is empty if one is named twice. A MIG instance is taken on trust.
[[nodiscard]] std::vector<ListedGpu> visible_gpus(
    const GpuInventory& inventory, const std::optional<std::string>& cuda_visible_devices);

// What --gpus names: indices and UUIDs, which may be cut short. Throws LaunchError, listing what
// there is, if an entry names none, or one that another names.
[[nodiscard]] std::vector<ListedGpu> chosen_gpus(const GpuInventory& inventory,
                                                 const std::vector<std::string>& entries);

// As CUDA_VISIBLE_DEVICES takes them: all by index, or all by UUID.
[[nodiscard]] std::string cuda_list(const GpuInventory& inventory,
                                    const std::vector<ListedGpu>& gpus);

// The GPU of each worker, by local rank: the next of the list, from the beginning again if they may
// share.
[[nodiscard]] std::vector<std::optional<ListedGpu>> deal_gpus(const std::vector<ListedGpu>& list,
                                                              int workers, bool may_share);

}  // namespace ddp::launcher
