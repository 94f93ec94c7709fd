// SPDX-License-Identifier: MIT
#include "ddp/base/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>
#include <string_view>
#include <thread>

namespace ddp {
namespace {

constexpr std::size_t kWordBits = std::numeric_limits<unsigned long>::digits;

using Quota = std::optional<double>;

// Version 2: "max 100000" or "150000 100000".
Quota read_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0;
  double period = 0;
  if (!(file >> quota >> period) || period <= 0) return std::nullopt;
  return quota / period;
}

// Version 1: quota -1 = none.
Quota read_v1(const std::string& folder) {
  double quota = 0;
  double period = 0;
  if (!(std::ifstream(folder + "/cpu.cfs_quota_us") >> quota) || quota <= 0) return std::nullopt;
  if (!(std::ifstream(folder + "/cpu.cfs_period_us") >> period) || period <= 0) return std::nullopt;
  return quota / period;
}

// Checks mount/a/b and its parents up to mount. A container may see a path that is not mounted for
// it; then only the mount itself exists, and it is the container's own group.
Quota tightest(const std::string& mount, std::string path, Quota (*read)(const std::string&)) {
  Quota result;
  for (;;) {
    const Quota here = read(mount + path);
    if (here) result = std::min(*here, result.value_or(*here));
    if (path.empty()) return result;
    path.erase(path.find_last_of('/'));
  }
}

bool lists_cpu(std::string_view controllers) {
  std::istringstream names{std::string(controllers)};
  std::string name;
  while (std::getline(names, name, ',')) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

CgroupSource CgroupSource::of_this_process() {
  std::ostringstream text;
  text << std::ifstream("/proc/self/cgroup").rdbuf();
  return {text.str()};
}

// Lines are "hierarchy:controllers:path"; version 2 has hierarchy 0 and no controllers.
std::optional<double> cpu_quota(const CgroupSource& source) {
  Quota result;
  std::istringstream lines(source.membership);
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    while (path.ends_with('/')) path.pop_back();
    if (!path.empty() && path.front() != '/') continue;
    Quota here;
    if (controllers.empty()) here = tightest(source.mount, path, read_v2);
    if (lists_cpu(controllers)) here = tightest(source.mount + "/cpu", path, read_v1);
    if (here) result = std::min(*here, result.value_or(*here));
  }
  return result;
}

std::vector<int> affinity_cpus() {
  // The kernel refuses a mask smaller than its own, so grow until it fits.
  for (std::size_t bits = CPU_SETSIZE; bits <= (1 << 20); bits *= 2) {
    std::vector<unsigned long> words(bits / kWordBits);
    auto* const set = reinterpret_cast<cpu_set_t*>(words.data());
    if (::sched_getaffinity(0, bits / 8, set) != 0) continue;
    std::vector<int> cpus;
    for (std::size_t bit = 0; bit < bits; ++bit) {
      if (words[bit / kWordBits] >> (bit % kWordBits) & 1) cpus.push_back(static_cast<int>(bit));
    }
    return cpus;
  }
  std::vector<int> all(std::thread::hardware_concurrency());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

int usable_cpus(int affinity, std::optional<double> quota) {
  const double allowed = std::min<double>(affinity, std::floor(quota.value_or(affinity)));
  return std::max(1, static_cast<int>(allowed));
}

int usable_cpus() {
  const int affinity = static_cast<int>(affinity_cpus().size());
  return usable_cpus(affinity, cpu_quota(CgroupSource::of_this_process()));
}

int cpus_per_worker(int cpus, int workers) { return std::max(1, cpus / workers); }

}  // namespace ddp
