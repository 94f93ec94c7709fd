// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace ddp::launcher {

struct FileSystemSpace {
  std::uint64_t size_bytes = 0;
  std::uint64_t free_bytes = 0;
};

// What a death by SIGBUS may mean where /dev/shm is like this: that a page of shared memory could
// not be had. Empty if there is plenty.
[[nodiscard]] std::string bus_error_hint(const FileSystemSpace& shared_memory);

// Of /dev/shm now, while the other ranks still hold what is in it.
[[nodiscard]] std::string bus_error_hint();

}  // namespace ddp::launcher
