// SPDX-License-Identifier: MIT
//
// The progress of each worker of a host in init_process_group, for its launcher: the second eight
// bytes of the worker's slot in DDP_STEP_FILE (see step_file.h), a number in this host's byte
// order.
#pragma once

#include <cstdint>

namespace ddp {

enum class StartPhase : std::uint64_t {
  kNotThere = 0,  // init_process_group was not called, or the program does not use libddp
  kWaiting = 1,   // waits for the other ranks
  kMet = 2
};

// Writes this process's phase to DDP_STEP_FILE, if that is set.
void mark_start(int local_rank, StartPhase phase) noexcept;

// Reads a worker's phase from the open file; kNotThere if there is no such slot.
[[nodiscard]] StartPhase read_start_mark(int step_file_fd, int local_rank) noexcept;

}  // namespace ddp
