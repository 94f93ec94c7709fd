// SPDX-License-Identifier: MIT
#include "ddp/io/directory_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

#include "ddp/base/error.h"
#include "ddp/base/field_lines.h"
#include "ddp/base/log.h"
#include "ddp/base/system/process_status.h"
#include "ddp/io/atomic_file.h"

namespace ddp {

namespace {

// One of /proc/locks: "1: FLOCK  ADVISORY  WRITE 4711 fe:00:11043045 0 EOF", with the file's device
// and inode; see proc(5). The pid of a process that is not to be seen from here is not positive.
std::optional<pid_t> holder_in(const std::string& line, const struct stat& file) {
  WordReader words(line);
  std::string skipped, kind, place;
  pid_t pid = 0;
  words >> skipped >> kind >> skipped >> skipped >> pid >> place;
  const bool is_it = kind == "FLOCK" && place == fmt::format("{:02x}:{:02x}:{}", major(file.st_dev),
                                                             minor(file.st_dev), file.st_ino);
  return is_it && pid > 0 ? std::optional(pid) : std::nullopt;
}

// A fork shares its parent's lock, which keeps the parent's pid.
std::string describe_owner(pid_t pid) {
  const auto process = read_process(pid);
  if (process && !process->is_zombie()) return describe_process(pid);
  return fmt::format("a process that pid {}, which has ended, had forked", pid);
}

// "pid 4711 (train --epochs 5)"; "another process", also on another host, if it cannot be found.
std::string describe_holder(const FileDescriptor& locked) {
  struct stat file = {};
  std::ifstream locks("/proc/locks");
  if (fstat(locked.get(), &file) != 0) return "another process";
  for (std::string line; std::getline(locks, line);) {
    if (const auto pid = holder_in(line, file)) return describe_owner(*pid);
  }
  return "another process";
}

// The directory may not be the one where the holder writes.
std::string remark_on_links(const FileDescriptor& locked) {
  struct stat file = {};
  if (fstat(locked.get(), &file) != 0 || file.st_nlink < 2) return "";
  return fmt::format(
      "; or in a copy of this directory whose .lock is the same file (it has {} names, as after cp "
      "-al): then remove the .lock of the directory where no job runs",
      file.st_nlink);
}

// Another user's file can be locked, too, if it can be read.
FileDescriptor open_lock(const std::filesystem::path& file) {
  FileDescriptor lock(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock.is_open() && errno == EACCES) {
    lock = FileDescriptor(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!lock.is_open() && errno == ENOENT) errno = EACCES;
  }
  return lock;
}

}  // namespace

DirectoryLock::DirectoryLock(const std::filesystem::path& directory)
    : directory_(directory), fd_(open_lock(directory / kDirectoryLockName)) {
  const auto fail = [&](const std::string& complaint) {
    throw FileError("[directory_lock] " + directory.string() + ": " + complaint);
  };
  if (!fd_.is_open()) {
    const std::string reason = error_text(errno);
    std::error_code ignored;
    const bool is_there = std::filesystem::exists(directory / kDirectoryLockName, ignored);
    fail((is_there ? ".lock cannot be opened: " : "no file can be made there: ") + reason);
  }
  const int error = flock(fd_.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  if (error == EBADF) {  // NFS wants to write what it locks
    fail(".lock cannot be locked: it is another user's, and can only be read");
  }
  if (error == EWOULDBLOCK) {
    fail(describe_holder(fd_) +
         " is writing there: another job, or another rank of this one, of which only rank 0 makes "
         "a CheckpointWriter" +
         remark_on_links(fd_));
  }
  if (error != 0) {
    logging::warning("[directory_lock] " + directory.string() +
                     ": this file system has no locks (" + error_text(error) +
                     "): only one job at a time may write there, and a second one would not be "
                     "noticed; files *.tmp.* of saves that are killed stay there");
  }
  try {
    const AtomicFile probe(directory / kDirectoryProbeName);  // removed at once
  } catch (const FileError&) {
    std::throw_with_nested(
        FileError("[directory_lock] " + directory.string() + ": no file can be made there"));
  }
}

void DirectoryLock::check() const {
  struct stat held = {};
  struct stat there = {};
  if (fstat(fd_.get(), &held) != 0) return;
  const std::filesystem::path lock = directory_ / kDirectoryLockName;
  const bool is_there = stat(lock.c_str(), &there) == 0;
  if (is_there && there.st_dev == held.st_dev && there.st_ino == held.st_ino) return;
  if (!is_there && errno != ENOENT) return;
  throw FileError("[directory_lock] " + directory_.string() +
                  ": the directory or its .lock was removed or replaced while this process was "
                  "writing there, so another one may be, too");
}

}  // namespace ddp
