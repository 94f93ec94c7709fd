// SPDX-License-Identifier: MIT
#include "ddp/data/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

#include "ddp/base/error.h"

namespace ddp {

// O_NONBLOCK: the open must not wait for the writer of a named pipe.
RegularFile::RegularFile(const std::filesystem::path& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!file_.is_open()) throw std::runtime_error("cannot be opened: " + error_text(errno));
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) throw std::runtime_error(error_text(errno));
  if (S_ISDIR(status.st_mode)) {
    throw std::runtime_error("is not a regular file: " + error_text(EISDIR));
  }
  if (!S_ISREG(status.st_mode)) throw std::runtime_error("is not a regular file");
  size_ = static_cast<std::uint64_t>(status.st_size);
}

std::size_t RegularFile::read(std::span<std::uint8_t> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file_.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::runtime_error("cannot be read: " + error_text(errno));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace ddp
