// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/file_descriptor.h"

namespace ddp::launcher {

// Both ends are closed on exec.
struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};

[[nodiscard]] Pipe make_pipe();  // SystemError if no more files can be opened

}  // namespace ddp::launcher
