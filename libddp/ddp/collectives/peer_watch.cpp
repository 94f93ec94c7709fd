// SPDX-License-Identifier: MIT
#include "ddp/collectives/peer_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace ddp {

PeerWatch::PeerWatch(const std::vector<pid_t>& pids) : processes_(pids.size()) {
  for (std::size_t rank = 0; rank < pids.size(); ++rank) {
    if (pids[rank] == ::getpid()) continue;
    const auto fd = static_cast<int>(::syscall(SYS_pidfd_open, pids[rank], 0));
    if (fd >= 0) processes_[rank] = FileDescriptor(fd);
    if (fd < 0 && errno == ESRCH) dead_at_start_ = static_cast<int>(rank);
  }
}

std::optional<int> PeerWatch::first_dead() const {
  if (dead_at_start_) return dead_at_start_;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    if (!processes_[rank].is_open()) continue;
    pollfd entry{processes_[rank].get(), POLLIN, 0};
    if (::poll(&entry, 1, 0) > 0) return static_cast<int>(rank);
  }
  return std::nullopt;
}

}  // namespace ddp
