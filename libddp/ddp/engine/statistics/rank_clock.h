// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "ddp/base/time.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// The offset of a rank's steady clock from rank 0's, measured at one moment.
struct ClockReading {
  Clock::time_point when;    // by the rank's clock
  Clock::duration offset{};  // rank 0's clock = the rank's clock + offset
  Clock::duration error{};   // bound on the offset's error; 0: both have the same clock
};

enum class SharedClocks : std::uint8_t { kTrust, kMeasure };

// The readings by rank, on rank 0; empty on the others. Collective; blocks.
//
// Processes of one host (the same boot and time namespace) share the steady clock. With other
// ranks, rank 0 exchanges kClockRounds empty messages. The peer replies at some moment between rank
// 0's send and receive, so the shortest exchange bounds the offset's error by half of its duration.
[[nodiscard]] std::vector<ClockReading> read_clocks(ProcessGroup& group,
                                                    SharedClocks shared = SharedClocks::kTrust);

inline constexpr int kClockRounds = 16;

// Converts `time` on the rank's clock to rank 0's. Clocks drift, so the offset is interpolated
// linearly between the two readings.
[[nodiscard]] Clock::time_point on_first_clock(Clock::time_point time, const ClockReading& early,
                                               const ClockReading& late);

}  // namespace ddp
