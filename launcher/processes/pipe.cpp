// SPDX-License-Identifier: MIT
#include "launcher/processes/pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "ddp/base/error.h"
#include "ddp/base/net/poll_until.h"

namespace ddp::launcher {

Pipe make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw SystemError("cannot make a pipe", errno);
  return {FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

std::optional<std::string> read_all(const FileDescriptor& read_end, const Deadline& deadline) {
  std::string text;
  std::array<char, 4096> buffer;
  std::array entries = {pollfd{.fd = read_end.get(), .events = POLLIN, .revents = 0}};
  for (;;) {
    if (!poll_until(entries, deadline)) return std::nullopt;
    const ssize_t size = ::read(read_end.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

}  // namespace ddp::launcher
