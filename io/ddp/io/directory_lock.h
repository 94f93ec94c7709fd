// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string_view>

#include "ddp/base/file_descriptor.h"

namespace ddp {

inline constexpr std::string_view kDirectoryLockName = ".lock";
// Only a temporary file ever has this name, by which the lock finds out whether files can be made;
// access() does not know of all the reasons why not. A shorter name could be found to fit into a
// path's longest length where a checkpoint's does not.
inline constexpr std::string_view kDirectoryProbeName =
    "probe_as_long_as_the_longest_name_that_a_checkpoint_there_can_have__";

// An exclusive lock for writing in a directory, which one object in all processes can hold; it ends
// with the process at the latest. It is a flock() of the file `.lock` there, so it works between
// hosts if the file system passes these on for files, as NFS does. On a file system without locks,
// every object gets it, and logs a warning.
class DirectoryLock {
 public:
  // Throws FileError if another object holds the lock, or if no file can be created there.
  explicit DirectoryLock(const std::filesystem::path& directory);

  // Throws FileError if the directory or its lock was removed or replaced meanwhile, so that
  // another object can hold the lock, too.
  void check() const;

 private:
  std::filesystem::path directory_;
  FileDescriptor fd_;
};

}  // namespace ddp
