// SPDX-License-Identifier: MIT
//
// Which CPUs belong together, according to /sys; tests use a folder of their own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/placement/cpu_list.h"

namespace ddp::launcher {

struct CpuTopology {
  struct Cpu {
    int number = 0;
    int core = 0;  // number of the core's first hyperthread, even if not allowed
    int node = 0;  // the NUMA node
  };
  std::vector<Cpu> cpus;  // the allowed CPUs

  [[nodiscard]] CpuList all() const;
  [[nodiscard]] CpuList on_node(int node) const;
  [[nodiscard]] std::vector<int> nodes() const;  // nodes with allowed CPUs, ascending
};

// Assumes simple defaults for missing files: one core for each CPU, one node.
[[nodiscard]] CpuTopology read_topology(const std::string& sysfs, const CpuList& allowed);

// The node next to a PCI device ("0000:1a:00.0"). Returns nothing if the kernel does not know.
[[nodiscard]] std::optional<int> node_of_device(const std::string& sysfs,
                                                const std::string& bus_id);

}  // namespace ddp::launcher
