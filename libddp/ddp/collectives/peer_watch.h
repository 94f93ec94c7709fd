// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <vector>

#include "ddp/base/socket.h"

namespace ddp {

// Tells whether other processes of this host are alive, through pidfds: a zombie counts as dead
// and a reused pid cannot be mistaken for the old one. Where the kernel gives no pidfd (too old, or
// out of descriptors) the pid is asked, which sees neither.
class PeerWatch {
 public:
  // pids[r] is rank r's process. Entries equal to our own process are not watched.
  explicit PeerWatch(const std::vector<pid_t>& pids);

  // True if the rank's process has ended.
  [[nodiscard]] bool is_dead(int rank) const;

 private:
  struct Process {
    pid_t pid;          // 0: our own, not watched
    FileDescriptor fd;  // closed where the kernel gave none: then the pid itself is asked
  };

  std::vector<Process> processes_;  // by rank
};

}  // namespace ddp
