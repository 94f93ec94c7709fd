// SPDX-License-Identifier: MIT
//
// What all ranks learn from each other about a step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ddp {

inline constexpr std::size_t kMaxMetrics = 8;
inline constexpr std::size_t kMaxVotes = 8;

// How a rank spent its time from the end of its last wait() until its last gradient was ready, and
// how much of that time it waited for data.
struct RankTimes {
  double work_seconds = 0;
  double data_seconds = 0;
  bool is_idle = false;  // had no samples in this step, so its work does not show its speed
};

enum class Quorum : std::uint8_t { kAny, kAll };

// One step, or the sum of several, over all ranks.
struct StepSummary {
  struct Metric {
    double sum = 0;     // of value * weight
    double weight = 0;  // of weight
    // The weighted mean; 0 if no rank recorded a value.
    [[nodiscard]] double mean() const { return weight == 0 ? 0 : sum / weight; }
  };

  double samples = 0;
  std::array<Metric, kMaxMetrics> metrics = {};
  // These are set for a single step; they are 0 in sums of several steps.
  int active_ranks = 0;                   // ranks that have data, in this step or later
  int stop_requests = 0;                  // ranks that ask to stop
  std::array<int, kMaxVotes> votes = {};  // ranks in favour
};

}  // namespace ddp
