// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "ddp/collectives/process_group.h"

namespace ddp::bench {

// What an all_reduce over it takes: the latency, and the operand's bytes at this bandwidth, which
// is the algbw of nccl-tests.
struct SimulatedLink {
  std::chrono::nanoseconds latency{0};
  double bytes_per_second = 1e10;

  [[nodiscard]] Clock::duration time_of(std::size_t size_bytes) const;
};

// Rank 0 of a group on the CPU whose other ranks do not exist: a simulated collective. An
// all_reduce takes the link's time on the group's own thread, which sleeps meanwhile, so that
// nothing but time is taken from a backward beside it; all_gather, broadcast and barrier take none.
// Results are what they would be if every rank had the operands of this one, but that an all_reduce
// leaves operands of more than kSummedBytes as they are. All other operations are refused with
// std::invalid_argument.
[[nodiscard]] std::shared_ptr<ProcessGroup> make_simulated_group(const SimulatedLink& link,
                                                                 int world_size);

// For groups of this kind.
void refuse_unknown(CollectiveKind kind);

// Enough for what ranks agree upon by sums.
inline constexpr std::size_t kSummedBytes = 4096;

}  // namespace ddp::bench
