// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// Where to read a process's control groups from; tests use their own.
struct CgroupSource {
  std::string membership;                // the text of /proc/self/cgroup
  std::string mount = "/sys/fs/cgroup";  // v2, or the folder of the v1 controllers

  static CgroupSource of_this_process();
};

struct CgroupFolder {
  enum class Version { k1, k2 };

  std::string path;
  Version version;
};

// The folders that tell what a controller ("cpu") allows the process: for cgroup version 2, and for
// the hierarchy of version 1 with this controller, those from the process's group up to the root.
// Some may not exist: a container may see a path that is not mounted for it; then only the mount
// itself exists, and it is the container's own group.
[[nodiscard]] std::vector<CgroupFolder> cgroup_folders(const CgroupSource& source,
                                                       std::string_view controller);

}  // namespace ddp
