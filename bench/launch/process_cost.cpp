// SPDX-License-Identifier: MIT
#include "launch/process_cost.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "ddp/base/error.h"

namespace ddp::bench {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(pid_t pid) { return fs::path("/proc") / std::to_string(pid); }

fs::path executable_of(pid_t pid) {
  std::error_code gone;
  return fs::read_symlink(folder_of(pid) / "exe", gone);
}

// Reads CPU times from schedstat, which counts nanoseconds; /proc/PID/stat counts hundredths of a
// second.
double cpu_seconds(pid_t pid) {
  double nanoseconds = 0;
  std::error_code gone;
  for (const auto& thread : fs::directory_iterator(folder_of(pid) / "task", gone)) {
    double on_cpu = 0;
    std::ifstream(thread.path() / "schedstat") >> on_cpu;
    nanoseconds += on_cpu;
  }
  return nanoseconds / 1e9;
}

double resident_mib(pid_t pid) {
  std::ifstream status(folder_of(pid) / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

void add(pid_t pid, const fs::path& executable, ProcessCost& cost) {
  if (executable_of(pid) != executable) return;
  cost.cpu_seconds += cpu_seconds(pid);
  cost.resident_mib += resident_mib(pid);
  std::error_code gone;
  for (const auto& thread : fs::directory_iterator(folder_of(pid) / "task", gone)) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child = 0; children >> child;) add(child, executable, cost);
  }
}

}  // namespace

ProcessCost cost_of_launcher(pid_t pid) {
  const fs::path executable = executable_of(pid);
  if (executable.empty()) throw Error("the launcher ended before it was measured");
  ProcessCost cost;
  add(pid, executable, cost);
  return cost;
}

}  // namespace ddp::bench
