// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

#include "ddp/base/socket.h"

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
    std::size_t size_bytes = 0;
  };

  // Zeroed. Throws SystemError.
  [[nodiscard]] static std::shared_ptr<SharedMemory> create(std::size_t size_bytes);
  // Throws SystemError if it cannot be opened, MismatchError if it has another size.
  [[nodiscard]] static std::shared_ptr<SharedMemory> open(const Name& name);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] Name name() const;
  // Makes all pages present in this mapping, so that none is missing later, when that would end the
  // process (SIGBUS). Throws SystemError if memory is short.
  void populate() const;
  // Gives the pages back to the system although others may still have mapped them: they, and we,
  // find zeros from now on.
  void discard() const noexcept;

 private:
  SharedMemory(FileDescriptor file, std::size_t size_bytes);

  FileDescriptor file_;
  std::size_t size_bytes_;
  std::byte* data_;
};

// "/proc/PID/fd/N".
[[nodiscard]] std::string to_string(const SharedMemory::Name& name);

}  // namespace ddp
