// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

#include "ddp/base/file_descriptor.h"
#include "launcher/output/gap.h"

namespace ddp::launcher {

// A worker's complete output, byte for byte. After an error (a full disk) later bytes are tried
// again, behind a line that says how many are missing.
class LogFile {
 public:
  LogFile() = default;  // ignores writes
  // An empty path: ignores writes, as after a failure to open the file, which the first one
  // reports.
  explicit LogFile(std::string path);
  LogFile(LogFile&&) = default;
  LogFile& operator=(LogFile&&) = default;
  ~LogFile();

  // Returns the errno of a failure; 0 if there was none, or only those that began earlier.
  [[nodiscard]] int write(std::string_view bytes);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor file_;
  int open_error_ = 0;  // not yet returned
  Gap gap_;
  bool is_at_line_begin_ = true;
};

}  // namespace ddp::launcher
