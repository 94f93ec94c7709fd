// SPDX-License-Identifier: MIT
#pragma once

#include <set>
#include <string>

namespace ddp::soak {

// The shared memory of all processes on this host.
struct SharedMemory {
  double mebibytes = 0;  // Shmem of /proc/meminfo: memory files (memfd), /dev/shm and the like
  std::set<std::string> names;  // in /dev/shm
};

[[nodiscard]] SharedMemory shared_memory_of_host();

// The number of names in `after` that are not in `before`.
[[nodiscard]] std::size_t count_new_names(const SharedMemory& before, const SharedMemory& after);

}  // namespace ddp::soak
