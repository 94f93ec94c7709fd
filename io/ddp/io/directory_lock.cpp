// SPDX-License-Identifier: MIT
#include "ddp/io/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "ddp/base/error.h"
#include "ddp/io/atomic_file.h"

namespace ddp {

DirectoryLock::DirectoryLock(const std::filesystem::path& directory)
    : fd_(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  const auto fail = [&](const std::string& complaint) {
    throw FileError("[directory_lock] " + directory.string() + ": " + complaint);
  };
  if (!fd_.is_open()) fail("cannot be opened: " + error_text(errno));
  if (flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    fail(
        "another process is writing there: another job, or another rank of this one, of which only "
        "rank 0 makes a CheckpointWriter");
  }
  if (access(directory.c_str(), W_OK | X_OK) != 0) {
    fail("no file can be made there: " + error_text(errno));
  }
  const AtomicFile probe(directory / "probe");  // finds out what access() cannot; removed at once
}

}  // namespace ddp
