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
struct Files {
  const char* events;
  const char* limit;
};

Files files_of(CgroupFolder::Version version) {
  if (version == CgroupFolder::Version::k2) return {"/memory.events", "/memory.max"};
  return {"/memory.oom_control", "/memory.limit_in_bytes"};
}

struct Group {
  Number oom_kills;
  Number limit_bytes;
};

// Kills are counted in the process's own group; limits of a group hold for all groups below.
Group read_group(const CgroupSource& source) {
  Group group;
  for (const auto& [path, version] : cgroup_folders(source, "memory")) {
    const Files files = files_of(version);
    if (!group.oom_kills) group.oom_kills = read_entry(path + files.events, "oom_kill");
    if (const Number limit = read_limit(path + files.limit)) {
      group.limit_bytes = std::min(*limit, group.limit_bytes.value_or(*limit));
    }
  }
  return group;
}

}  // namespace

MemorySource MemorySource::of_this_process() { return {CgroupSource::of_this_process()}; }

MemoryState read_memory_state(const MemorySource& source) {
  Group found = read_group(source.cgroup);
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
