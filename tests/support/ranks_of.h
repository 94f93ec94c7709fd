// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "support/child_process.h"

namespace ddp::test {

inline pid_t first_child_of(pid_t parent) {
  const std::string pid = std::to_string(parent);
  std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
  pid_t first = 0;
  children >> first;
  if (first <= 0) throw std::runtime_error("process " + pid + " has no child");
  return first;
}

// The launcher's child is the agent, whose children are the ranks.
inline pid_t first_rank_of(const ChildProcess& launcher) {
  return first_child_of(first_child_of(launcher.pid()));
}

}  // namespace ddp::test
