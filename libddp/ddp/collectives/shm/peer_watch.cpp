// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm/peer_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace ddp {

PeerWatch::PeerWatch(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) {
    if (pid == ::getpid()) {
      processes_.push_back({0, FileDescriptor()});
    } else {
      processes_.push_back(
          {pid, FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)))});
    }
  }
}

bool PeerWatch::is_dead(int rank) const {
  const Process& process = processes_[static_cast<std::size_t>(rank)];
  if (process.pid == 0) return false;
  pollfd entry{process.fd.get(), POLLIN, 0};
  // A program may have closed descriptors that are not its own.
  const bool is_usable =
      process.fd.is_open() && ::poll(&entry, 1, 0) >= 0 && (entry.revents & POLLNVAL) == 0;
  if (is_usable) return (entry.revents & POLLIN) != 0;
  return ::kill(process.pid, 0) != 0 && errno == ESRCH;
}

}  // namespace ddp
