// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "ddp/base/file_descriptor.h"

namespace ddp {

// Memory that processes of one host share: an anonymous file (memfd) that others open as
// /proc/PID/fd/N while its owner keeps it. There is no name to unlink and no limit by the size of
// /dev/shm; the kernel frees it with the last process that has it.
//
// Within a process there is one mapping of each, whoever opens it: threads that are ranks see the
// same addresses, and so does a tool that looks for data races.
class SharedMemory {
 public:
  // How another process finds it.
  struct Name {
    pid_t pid = 0;
    int fd = -1;
    ino_t inode = 0;  // shows if the descriptor was reused
    std::size_t size_bytes = 0;
  };

  // Zeroed. Throws SystemError.
  [[nodiscard]] static std::shared_ptr<SharedMemory> create(std::size_t size_bytes);
  // Throws SystemError if it cannot be opened, MismatchError if it is something else by now.
  [[nodiscard]] static std::shared_ptr<SharedMemory> open(const Name& name);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size_bytes() const { return name_.size_bytes; }
  [[nodiscard]] const Name& name() const { return name_; }
  // Makes all pages present in this mapping, so that none is missing later, when that would end the
  // process (SIGBUS). Throws SystemError if memory is short.
  void populate() const;
  // Gives the pages back to the system although others may still have mapped them: all find zeros
  // from now on. Only for the process that created it; does nothing in a forked child.
  void discard() noexcept;
  [[nodiscard]] bool is_discarded() const { return is_discarded_.load(); }

 private:
  SharedMemory(FileDescriptor file, const Name& name);

  FileDescriptor file_;  // the creator's
  Name name_;
  std::byte* data_;
  std::atomic<bool> is_discarded_ = false;
};

// "/proc/PID/fd/N".
[[nodiscard]] std::string to_string(const SharedMemory::Name& name);

}  // namespace ddp
