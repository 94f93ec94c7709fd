// SPDX-License-Identifier: MIT
#include "ddp/base/system/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <thread>

#include "ddp/base/field_lines.h"

namespace ddp {
namespace {

constexpr std::size_t kWordBits = std::numeric_limits<unsigned long>::digits;

using Quota = std::optional<double>;

// Empty if there is no such file.
std::string quota_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// "150000 100000": the microseconds of CPU time in each period. Version 2 has "max" for no quota,
// and version 1 has -1.
Quota parse_quota(const std::string& text) {
  double quota = 0;
  double period = 0;
  if (!(WordReader(text) >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

Quota read_v2(const std::string& folder) { return parse_quota(quota_line(folder + "/cpu.max")); }

Quota read_v1(const std::string& folder) {
  return parse_quota(quota_line(folder + "/cpu.cfs_quota_us") + ' ' +
                     quota_line(folder + "/cpu.cfs_period_us"));
}

}  // namespace

std::optional<double> cpu_quota(const CgroupSource& source) {
  Quota result;
  for (const auto& [path, version] : cgroup_folders(source, "cpu")) {
    const Quota here = version == CgroupFolder::Version::k2 ? read_v2(path) : read_v1(path);
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
