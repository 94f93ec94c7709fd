// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

#include "ddp/base/socket.h"

namespace ddp::launcher {

// A worker's whole output, byte for byte. After an error (a full disk) it takes nothing more.
class LogFile {
 public:
  LogFile() = default;  // takes nothing
  // An empty path: likewise. If the file cannot be opened, the first write says so.
  explicit LogFile(std::string path);

  // Returns the errno of what failed, once; else 0.
  [[nodiscard]] int write(std::string_view bytes);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor file_;
  int error_ = 0;  // not yet told
};

}  // namespace ddp::launcher
