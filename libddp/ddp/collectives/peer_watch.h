// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "ddp/base/socket.h"

namespace ddp {

// Tells whether other processes of this host are alive, through pidfds: a zombie counts as dead
// and a reused pid cannot be mistaken for the old one.
class PeerWatch {
 public:
  // pids[r] is rank r's process. Entries equal to our own process are not watched.
  explicit PeerWatch(const std::vector<pid_t>& pids);

  // A rank whose process has ended, if any.
  [[nodiscard]] std::optional<int> first_dead() const;

 private:
  std::vector<FileDescriptor> processes_;  // by rank; closed = not watched
  std::optional<int> dead_at_start_;
};

}  // namespace ddp
