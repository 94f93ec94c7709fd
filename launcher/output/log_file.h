// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

#include "ddp/base/file_descriptor.h"

namespace ddp::launcher {

// A worker's complete output, byte for byte. After an error (a full disk) it ignores further
// writes.
class LogFile {
 public:
  LogFile() = default;  // ignores writes
  // An empty path: ignores writes. If the file cannot be opened, the first write reports it.
  explicit LogFile(std::string path);

  // Returns the errno of a failure once; otherwise 0.
  [[nodiscard]] int write(std::string_view bytes);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor file_;
  int error_ = 0;  // not yet returned
};

}  // namespace ddp::launcher
