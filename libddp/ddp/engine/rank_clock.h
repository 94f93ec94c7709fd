// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "ddp/base/time.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// A rank's steady clock beside rank 0's, at one moment.
struct ClockReading {
  Clock::time_point when;    // by the rank's clock
  Clock::duration offset{};  // added to it: rank 0's clock
  Clock::duration error{};   // the offset is wrong by this at most; 0: it is the same clock
};

enum class SharedClocks : std::uint8_t { kTrust, kMeasure };

// By rank, on rank 0; empty on the others. Collective; blocks.
//
// Processes of one host (the same boot, the same time namespace) share the steady clock. With
// others, rank 0 exchanges kClockRounds empty messages; a reply was given at some moment between
// the message and its arrival, so the shortest exchange bounds the offset to half of what it took.
[[nodiscard]] std::vector<ClockReading> read_clocks(ProcessGroup& group,
                                                    SharedClocks shared = SharedClocks::kTrust);

inline constexpr int kClockRounds = 16;

// `time`, by the rank's clock, on rank 0's: clocks drift, so between two readings the offset is
// taken to change evenly.
[[nodiscard]] Clock::time_point on_first_clock(Clock::time_point time, const ClockReading& early,
                                               const ClockReading& late);

}  // namespace ddp
