// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"

namespace ddp::test {

struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};

inline Pipe make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw SystemError("pipe2", errno);
  return {FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

}  // namespace ddp::test
