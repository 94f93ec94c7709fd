// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "ddp/collectives/collective.h"
#include "ddp/collectives/process_group.h"

namespace ddp::bench {

// The time of an all_reduce over this link is the latency plus the operand's bytes divided by the
// bandwidth, which is nccl-tests' algbw.
struct SimulatedLink {
  std::chrono::nanoseconds latency{0};
  double bytes_per_second = 1e10;

  [[nodiscard]] Clock::duration time_of(std::size_t size_bytes) const;
};

// Rank 0 of a group on the CPU whose other ranks do not exist. An all_reduce takes the link's time
// on the group's own thread, which sleeps meanwhile, so that it takes no CPU time from a backward
// beside it. all_gather, broadcast and barrier take no time. Results are those of a group in which
// all ranks have this rank's operands, except that an all_reduce leaves operands of more than
// kSummedBytes unchanged. All other operations are refused with std::invalid_argument.
[[nodiscard]] std::shared_ptr<ProcessGroup> make_simulated_group(const SimulatedLink& link,
                                                                 int world_size);

// Throws the std::invalid_argument with which simulated groups refuse an operation.
void refuse_unknown(CollectiveKind kind);

// Large enough for the sums by which ranks reach agreement.
inline constexpr std::size_t kSummedBytes = 4096;

}  // namespace ddp::bench
