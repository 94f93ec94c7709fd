// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace ddp::launcher {

struct FileSystemSpace {
  std::uint64_t size_bytes = 0;
  std::uint64_t free_bytes = 0;
};

// The likely meaning of a SIGBUS when /dev/shm is in this state: no page of shared memory was left.
// Empty if there is plenty.
[[nodiscard]] std::string bus_error_hint(const FileSystemSpace& shared_memory);

// For the current state of /dev/shm; call it while the other ranks still hold their shared memory.
[[nodiscard]] std::string bus_error_hint();

}  // namespace ddp::launcher
