// SPDX-License-Identifier: MIT
//
// How far each worker of a host has come in init_process_group, for its launcher: the second eight
// bytes of the worker's slot in DDP_STEP_FILE (see step_file.h), a number in this host's byte
// order.
#pragma once

#include <cstdint>

namespace ddp {

enum class StartPhase : std::uint64_t {
  kNotThere = 0,  // not called, or not from libddp
  kWaiting = 1,   // for the other ranks
  kMet = 2
};

// Notes it for this process where DDP_STEP_FILE says, if it says so.
void mark_start(int local_rank, StartPhase phase) noexcept;

// Reads it from the open file; kNotThere if there is no such slot.
[[nodiscard]] StartPhase read_start_mark(int step_file_fd, int local_rank) noexcept;

}  // namespace ddp
