// SPDX-License-Identifier: MIT
//
// What all ranks learn of a step from each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ddp {

inline constexpr std::size_t kMaxMetrics = 8;
inline constexpr std::size_t kMaxVotes = 8;

// How a rank spent its time up to the reduction: from the end of its last wait() until its last
// gradient was ready, and how much of that it waited for data.
struct RankTimes {
  double work_seconds = 0;
  double data_seconds = 0;
  bool is_idle = false;  // it had no samples in the step: its work says nothing of its speed
};

enum class Quorum : std::uint8_t { kAny, kAll };

// A step, or several together, as all ranks saw it.
struct StepSummary {
  struct Metric {
    double sum = 0;     // of value * weight
    double weight = 0;  // of weight
    // The weighted mean; 0 if nobody recorded anything.
    [[nodiscard]] double mean() const { return weight == 0 ? 0 : sum / weight; }
  };

  double samples = 0;
  std::array<Metric, kMaxMetrics> metrics = {};
  // Of a single step only; 0 in sums of several.
  int active_ranks = 0;                   // that have data, in this step or later
  int stop_requests = 0;                  // ranks that ask to stop
  std::array<int, kMaxVotes> votes = {};  // ranks in favour
};

}  // namespace ddp
