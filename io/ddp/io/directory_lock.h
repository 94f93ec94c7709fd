// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

#include "ddp/base/socket.h"

namespace ddp {

// The right to write in a directory, which one object in all processes has at a time; it ends with
// the process, however that ends. Other hosts see it where the file system passes flock() on. Where
// a file system cannot lock, everybody gets it.
class DirectoryLock {
 public:
  // Throws FileError if somebody else has it, or if no file can be made there.
  explicit DirectoryLock(const std::filesystem::path& directory);

 private:
  FileDescriptor fd_;
};

}  // namespace ddp
