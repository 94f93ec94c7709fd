// SPDX-License-Identifier: MIT
#include "launcher/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>

#include "ddp/base/socket.h"

namespace ddp::launcher {
namespace {

constexpr unsigned kPfExiting = 0x4;  // PF_EXITING, include/linux/sched.h

}  // namespace

std::vector<pid_t> all_pids() {
  std::vector<pid_t> pids;
  const auto close = [](DIR* folder) { ::closedir(folder); };
  const std::unique_ptr<DIR, decltype(close)> folder(::opendir("/proc"), close);
  if (!folder) return pids;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && stop == name.data() + name.size()) pids.push_back(pid);
  }
  return pids;
}

bool ProcessStat::is_exiting() const { return is_zombie() || (flags & kPfExiting) != 0; }

// "pid (name) state ppid pgrp session tty tpgid flags …"; the name may hold blanks and brackets.
std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  ProcessStat result;
  int session = 0;
  int terminal = 0;
  int terminal_group = 0;
  std::istringstream before{std::string(text.substr(0, text.find(' ')))};
  std::istringstream after{std::string(text.substr(name_end + 1))};
  if (!(before >> result.pid)) return std::nullopt;
  if (!(after >> result.state >> result.parent >> result.group >> session >> terminal >>
        terminal_group >> result.flags)) {
    return std::nullopt;
  }
  return result;
}

std::optional<ProcessStat> read_process(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size <= 0) return std::nullopt;
  return parse_process_stat({text.data(), static_cast<std::size_t>(size)});
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
