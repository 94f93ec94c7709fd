// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "ddp/base/file_descriptor.h"
#include "ddp/base/time.h"

namespace ddp::launcher {

// Both ends are closed on exec.
struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};

[[nodiscard]] Pipe make_pipe();  // SystemError if no more files can be opened

// What comes until the last write end is closed; nothing if that does not happen by the deadline.
[[nodiscard]] std::optional<std::string> read_all(const FileDescriptor& read_end,
                                                  const Deadline& deadline);

}  // namespace ddp::launcher
