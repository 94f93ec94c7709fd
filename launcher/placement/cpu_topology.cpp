// SPDX-License-Identifier: MIT
#include "launcher/placement/cpu_topology.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

namespace ddp::launcher {
namespace {

// Empty if there is no such file.
CpuList read_list(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return parse_cpu_list(text);
}

std::map<int, int> nodes_of_cpus(const std::string& sysfs) {
  const std::string folder = sysfs + "/devices/system/node/";
  std::map<int, int> nodes;
  for (const int node : read_list(folder + "online")) {
    for (const int cpu : read_list(folder + "node" + std::to_string(node) + "/cpulist")) {
      nodes[cpu] = node;
    }
  }
  return nodes;
}

int core_of(const std::string& sysfs, int cpu) {
  const CpuList siblings = read_list(sysfs + "/devices/system/cpu/cpu" + std::to_string(cpu) +
                                     "/topology/thread_siblings_list");
  return siblings.empty() ? cpu : siblings.front();
}

}  // namespace

CpuList CpuTopology::all() const {
  CpuList numbers;
  for (const Cpu& cpu : cpus) numbers.push_back(cpu.number);
  return numbers;
}

CpuList CpuTopology::on_node(int node) const {
  CpuList numbers;
  for (const Cpu& cpu : cpus) {
    if (cpu.node == node) numbers.push_back(cpu.number);
  }
  return numbers;
}

std::vector<int> CpuTopology::nodes() const {
  std::set<int> numbers;
  for (const Cpu& cpu : cpus) numbers.insert(cpu.node);
  return {numbers.begin(), numbers.end()};
}

CpuTopology read_topology(const std::string& sysfs, const CpuList& allowed) {
  const std::map<int, int> nodes = nodes_of_cpus(sysfs);
  CpuTopology topology;
  for (const int cpu : allowed) {
    const auto node = nodes.find(cpu);
    topology.cpus.push_back({.number = cpu,
                             .core = core_of(sysfs, cpu),
                             .node = node == nodes.end() ? 0 : node->second});
  }
  return topology;
}

std::optional<int> node_of_device(const std::string& sysfs, const std::string& bus_id) {
  int node = -1;
  std::ifstream file(sysfs + "/bus/pci/devices/" + bus_id + "/numa_node");
  if (bus_id.empty() || !(file >> node) || node < 0) return std::nullopt;
  return node;
}

}  // namespace ddp::launcher
