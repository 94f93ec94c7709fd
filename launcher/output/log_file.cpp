// SPDX-License-Identifier: MIT
#include "launcher/output/log_file.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "ddp/base/system/write_all.h"

namespace ddp::launcher {

// Appending allows others to truncate the file while the job runs.
LogFile::LogFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  file_ = FileDescriptor(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (!file_.is_open()) error_ = errno;
}

int LogFile::write(std::string_view bytes) {
  if (file_.is_open()) error_ = write_all(file_.get(), bytes);
  if (error_ != 0) file_.reset();
  return std::exchange(error_, 0);
}

}  // namespace ddp::launcher
