// SPDX-License-Identifier: MIT
#include "launcher/processes/pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "ddp/base/error.h"

namespace ddp::launcher {

Pipe make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw SystemError("cannot make a pipe", errno);
  return {FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

}  // namespace ddp::launcher
