// SPDX-License-Identifier: MIT
#include "launcher/verdict/memory_watch.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string_view>

namespace ddp::launcher {
namespace {

// Version 1 expresses "no limit" by a number near the maximum.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

using Number = std::optional<std::int64_t>;

// The value of `wanted` in a file of "name value" lines.
Number read_entry(const std::string& path, std::string_view wanted) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    std::int64_t value = 0;
    if (words >> name >> value && name == wanted) return value;
  }
  return std::nullopt;
}

// The number in a file; "max" means no limit.
Number read_limit(const std::string& path) {
  std::int64_t value = 0;
  if (!(std::ifstream(path) >> value) || value >= kNoLimit) return std::nullopt;
  return value;
}

// The files of a version of control groups.
struct Version {
  const char* events;
  const char* limit;
};

constexpr Version kV1{"/memory.oom_control", "/memory.limit_in_bytes"};
constexpr Version kV2{"/memory.events", "/memory.max"};

struct Group {
  Number oom_kills;
  Number limit_bytes;
};

// Kills are counted in the process's own group; limits of a group hold for all groups below. A
// container may see a path that is not mounted for it; then only the mount itself exists, and it is
// the container's own group.
Group read_group(const std::string& mount, std::string path, const Version& version) {
  Group group;
  for (;;) {
    const std::string folder = mount + path;
    if (!group.oom_kills) group.oom_kills = read_entry(folder + version.events, "oom_kill");
    if (const Number limit = read_limit(folder + version.limit)) {
      group.limit_bytes = std::min(*limit, group.limit_bytes.value_or(*limit));
    }
    if (path.empty()) return group;
    path.erase(path.find_last_of('/'));
  }
}

bool lists_memory(const std::string& controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

// The group of a line "hierarchy:controllers:path" of /proc/self/cgroup, if it is about memory.
Group read_line(const std::string& line, const std::string& mount) {
  const std::size_t first = line.find(':');
  const std::size_t second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return {};
  const std::string controllers = line.substr(first + 1, second - first - 1);
  std::string path = line.substr(second + 1);
  while (path.ends_with('/')) path.pop_back();
  if (!path.empty() && path.front() != '/') return {};
  if (controllers.empty()) return read_group(mount, path, kV2);
  return lists_memory(controllers) ? read_group(mount + "/memory", path, kV1) : Group{};
}

}  // namespace

MemorySource MemorySource::of_this_process() { return {CgroupSource::of_this_process()}; }

MemoryState read_memory_state(const MemorySource& source) {
  Group found;
  std::istringstream lines(source.cgroup.membership);
  std::string line;
  while (!found.oom_kills && std::getline(lines, line)) {
    found = read_line(line, source.cgroup.mount);
  }
  if (!found.oom_kills) found.oom_kills = read_entry(source.proc + "/vmstat", "oom_kill");
  if (!found.limit_bytes) {
    const Number kibibytes = read_entry(source.proc + "/meminfo", "MemTotal:");
    if (kibibytes) found.limit_bytes = *kibibytes * 1024;
  }
  return {found.oom_kills.value_or(0), found.limit_bytes};
}

std::optional<OutOfMemory> find_out_of_memory(int status, const MemoryState& before,
                                              const MemoryState& after) {
  const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  const bool was_its_child = WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL;
  if (!(was_killed || was_its_child) || after.oom_kills <= before.oom_kills) return std::nullopt;
  return OutOfMemory{.limit_bytes = after.limit_bytes};
}

}  // namespace ddp::launcher
