// SPDX-License-Identifier: MIT
#include "launcher/processes/process_tree.h"

#include <dirent.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "ddp/base/number_in.h"

namespace ddp::launcher {

std::vector<pid_t> all_pids() {
  std::vector<pid_t> pids;
  const auto close = [](DIR* folder) { ::closedir(folder); };
  const std::unique_ptr<DIR, decltype(close)> folder(::opendir("/proc"), close);
  if (!folder) return pids;
  while (const dirent* entry = ::readdir(folder.get())) {
    if (const auto pid = number_in<pid_t>(entry->d_name)) pids.push_back(*pid);
  }
  return pids;
}

std::vector<ProcessStat> living_descendants(pid_t root, const std::vector<pid_t>& excluded) {
  std::unordered_multimap<pid_t, ProcessStat> children;
  for (const pid_t pid : all_pids()) {
    if (const auto process = read_process(pid)) children.emplace(process->parent, *process);
  }
  std::vector<ProcessStat> found;
  std::vector<pid_t> open = {root};
  while (!open.empty()) {
    const auto [begin, end] = children.equal_range(open.back());
    open.pop_back();
    for (auto child = begin; child != end; ++child) {
      const pid_t pid = child->second.pid;
      if (std::ranges::find(excluded, pid) != excluded.end()) continue;
      open.push_back(pid);
      if (!child->second.is_zombie()) found.push_back(child->second);
    }
  }
  return found;
}

}  // namespace ddp::launcher
