// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <vector>

#include "ddp/base/file_descriptor.h"

namespace ddp {

// Tells whether other processes of this host are alive, by pidfds: a zombie counts as dead, and a
// reused pid is not mistaken for the old process. If the kernel gives no pidfd (too old, or out of
// descriptors), the pid is checked instead, which detects neither.
class PeerWatch {
 public:
  // pids[r] is rank r's process. Our own process is not watched.
  explicit PeerWatch(const std::vector<pid_t>& pids);

  // True if the rank's process has ended.
  [[nodiscard]] bool is_dead(int rank) const;

 private:
  struct Process {
    pid_t pid;          // 0: our own, not watched
    FileDescriptor fd;  // closed without a pidfd: then the pid itself is checked
  };

  std::vector<Process> processes_;  // by rank
};

}  // namespace ddp
