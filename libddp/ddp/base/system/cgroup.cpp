// SPDX-License-Identifier: MIT
#include "ddp/base/system/cgroup.h"

#include <fstream>
#include <optional>
#include <sstream>

namespace ddp {
namespace {

// A line "hierarchy:controllers:path"; version 2 has no controllers.
struct Membership {
  std::string controllers;
  std::string path;
};

std::optional<Membership> parse_membership(const std::string& line) {
  const std::size_t first = line.find(':');
  const std::size_t second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  std::string path = line.substr(second + 1);
  while (path.ends_with('/')) path.pop_back();
  if (!path.empty() && path.front() != '/') return std::nullopt;
  return Membership{line.substr(first + 1, second - first - 1), path};
}

bool lists(const std::string& controllers, std::string_view controller) {
  return ("," + controllers + ",").find("," + std::string(controller) + ",") != std::string::npos;
}

// MOUNT/a/b and its parents up to MOUNT.
void add_folders(const std::string& mount, std::string path, CgroupFolder::Version version,
                 std::vector<CgroupFolder>& folders) {
  for (;;) {
    folders.push_back({mount + path, version});
    if (path.empty()) return;
    path.erase(path.find_last_of('/'));
  }
}

}  // namespace

CgroupSource CgroupSource::of_this_process() {
  std::ostringstream text;
  text << std::ifstream("/proc/self/cgroup").rdbuf();
  return {text.str()};
}

std::vector<CgroupFolder> cgroup_folders(const CgroupSource& source, std::string_view controller) {
  using Version = CgroupFolder::Version;
  std::vector<CgroupFolder> folders;
  std::istringstream lines(source.membership);
  for (std::string line; std::getline(lines, line);) {
    const auto group = parse_membership(line);
    if (!group) continue;
    if (group->controllers.empty()) {
      add_folders(source.mount, group->path, Version::k2, folders);
    } else if (lists(group->controllers, controller)) {
      const std::string mount = source.mount + "/" + std::string(controller);
      add_folders(mount, group->path, Version::k1, folders);
    }
  }
  return folders;
}

}  // namespace ddp
