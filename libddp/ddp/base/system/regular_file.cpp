// SPDX-License-Identifier: MIT
#include "ddp/base/system/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "ddp/base/error.h"

namespace ddp {

// O_NONBLOCK: the open must not wait for the writer of a named pipe.
RegularFile::RegularFile(const std::filesystem::path& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!file_.is_open()) throw SystemError("cannot be opened", errno);
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) throw SystemError("its size cannot be read", errno);
  if (S_ISDIR(status.st_mode)) throw FileError("is not a regular file: " + error_text(EISDIR));
  if (!S_ISREG(status.st_mode)) throw FileError("is not a regular file");
  size_ = static_cast<std::uint64_t>(status.st_size);
}

std::size_t RegularFile::read(void* destination, std::size_t size_bytes) {
  auto* bytes = static_cast<std::byte*>(destination);
  std::size_t done = 0;
  while (done < size_bytes) {
    const ssize_t got = ::read(file_.get(), bytes + done, size_bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw SystemError("cannot be read", errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::string read_beginning(const std::filesystem::path& path, std::size_t longest) try {
  RegularFile file(path);
  std::string text(longest, '\0');
  text.resize(file.read(text.data(), text.size()));
  return text;
} catch (const Error&) {
  return "";
}

}  // namespace ddp
