// SPDX-License-Identifier: MIT
#include "launcher/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ddp::launcher {

// Appending allows others to truncate the file while the job runs.
LogFile::LogFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  file_ = FileDescriptor(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (!file_.is_open()) error_ = errno;
}

int LogFile::write(std::string_view bytes) {
  while (file_.is_open() && !bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error_ = errno;
      file_.reset();
    }
  }
  return std::exchange(error_, 0);
}

}  // namespace ddp::launcher
