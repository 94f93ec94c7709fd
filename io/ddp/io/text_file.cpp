// SPDX-License-Identifier: MIT
#include "ddp/io/text_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/system/no_write_signals.h"
#include "ddp/base/system/write_all.h"

namespace ddp {
namespace {

constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;

// This process's stdout or stderr if that is the file: "/dev/stdout". Opened again, a regular file
// would have a second position, so that each overwrites the other; and a socket cannot be. What
// else it may be is opened again, since writes to the stream itself need not wait.
FileDescriptor standard_stream_at(const std::filesystem::path& path) {
  struct stat wanted {};
  if (::stat(path.c_str(), &wanted) != 0) return {};
  if (!S_ISREG(wanted.st_mode) && !S_ISSOCK(wanted.st_mode)) return {};
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat status {};
    if (::fstat(stream, &status) != 0) continue;
    if (status.st_dev == wanted.st_dev && status.st_ino == wanted.st_ino) {
      return FileDescriptor(::fcntl(stream, F_DUPFD_CLOEXEC, 0));
    }
  }
  return {};
}

// To open a pipe that nobody reads would wait for a reader, but for O_NONBLOCK.
std::string why_not_open(int error) {
  return error == ENXIO ? "it is a pipe that nobody reads" : error_text(error);
}

}  // namespace

TextFile::TextFile(std::string origin, std::filesystem::path path, TextFileMode mode)
    : origin_("[" + std::move(origin) + "] "),
      path_(std::move(path)),
      fd_(standard_stream_at(path_)) {
  if (fd_.is_open()) return;
  fd_ = FileDescriptor(::open(path_.c_str(), kFlags | O_NONBLOCK, 0666));
  if (!fd_.is_open()) {
    throw FileError(origin_ + path_.string() + ": cannot open: " + why_not_open(errno));
  }
  ::fcntl(fd_.get(), F_SETFL, O_APPEND);  // from now on writes may wait
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (mode == TextFileMode::kTruncate) {
    if (const int error = resize(status.st_size); error != 0) refuse_to_empty(error);
    is_to_be_emptied_ = true;
  } else {
    end_torn_line(status.st_size);
    ::flock(fd_.get(), LOCK_SH | LOCK_NB);
  }
}

// Returns an errno or 0. Fails if another job is writing the file, or if one may only append to it
// (chattr +a).
int TextFile::resize(std::int64_t size) const {
  int error = 0;
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    error = EWOULDBLOCK;
  } else if (::ftruncate(fd_.get(), size) != 0) {
    error = errno;
  }
  ::flock(fd_.get(), LOCK_SH | LOCK_NB);  // so that nobody empties it; some file systems cannot
  return error;
}

void TextFile::refuse_to_empty(int error) const {
  throw FileError(origin_ + path_.string() +
                  (error == EWOULDBLOCK
                       ? ": this or another process is writing this file; choose another name"
                       : ": cannot empty this file: " + error_text(error)));
}

int TextFile::empty() { return std::exchange(is_to_be_emptied_, false) ? resize(0) : 0; }

void TextFile::begin() {
  if (const int error = empty(); error != 0) refuse_to_empty(error);
}

// Of a process that was killed, or whose disk was full.
void TextFile::end_torn_line(std::int64_t size) {
  const FileDescriptor reader(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  char last = '\n';
  if (size > 0 && ::pread(reader.get(), &last, 1, size - 1) == 1 && last != '\n') write("\n");
}

void TextFile::write(std::string_view text) {
  if (failed_) return;
  const NoWriteSignals guard;
  int error = empty();
  if (error == 0) error = write_all(fd_.get(), text);
  if (error == 0) return;
  failed_ = true;
  logging::error(origin_ + path_.string() +
                 ": cannot write, so nothing more is added to it: " + error_text(error));
}

}  // namespace ddp
