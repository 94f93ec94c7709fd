// SPDX-License-Identifier: MIT
#include "launcher/output/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ddp::launcher {

// Appending allows others to truncate the file while the job runs. The launcher has just made the
// folder, so what is there as a link or a named pipe is somebody else's.
LogFile::LogFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
  constexpr int kOnlyOwn = O_NOFOLLOW | O_NONBLOCK;
  file_ = FileDescriptor(::open(path_.c_str(), kFlags | kOnlyOwn | O_CLOEXEC, 0666));
  if (!file_.is_open()) open_error_ = errno;
}

// What came last may be missing.
LogFile::~LogFile() {
  if (file_.is_open()) static_cast<void>(gap_.close(file_.get(), is_at_line_begin_));
}

int LogFile::write(std::string_view bytes) {
  if (!file_.is_open()) return std::exchange(open_error_, 0);
  if (const int error = gap_.close(file_.get(), is_at_line_begin_); error != 0) {
    gap_.add(bytes.size(), error);
    return 0;
  }
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written > 0) {
      is_at_line_begin_ = bytes[static_cast<std::size_t>(written) - 1] == '\n';
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      gap_.add(bytes.size(), errno);
      return errno;
    }
  }
  return 0;
}

}  // namespace ddp::launcher
