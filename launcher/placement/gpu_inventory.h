// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace ddp::launcher {

struct Gpu {
  std::string uuid;                   // "GPU-8f4a…"
  std::string bus_id = {};            // "0000:1a:00.0", as under /sys/bus/pci/devices
  std::vector<std::string> mig = {};  // UUIDs of its MIG instances, "MIG-…"
};

// The machine's GPUs in NVML's order, which is PCI order; texts that NVML does not provide are
// empty.
struct GpuInventory {
  std::vector<Gpu> gpus;
  std::string problem;  // why there are none; empty if there are some
};

// Asks NVML, which is loaded at run time, in a process of its own, since NVML leaves threads behind
// (seen with driver 580). Makes no CUDA context; a missing driver is no error, nor one that
// does not answer within a minute.
[[nodiscard]] GpuInventory find_gpus();

// "0 GPU-8f4a…, 1 GPU-77b1…", or why there are none.
[[nodiscard]] std::string describe_gpus(const GpuInventory& inventory);

}  // namespace ddp::launcher
