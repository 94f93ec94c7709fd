// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

enum class Lateness : std::uint8_t { kCompute, kData };

// A rank that the others wait for.
struct Straggler {
  int rank = 0;
  Lateness cause = Lateness::kCompute;
  double late_seconds = 0;      // behind the typical rank, mean over `steps`
  std::uint64_t steps = 0;      // steps in which it was a straggler
  double late_now_seconds = 0;  // in the last ten steps that were judged; 0 if it has recovered
};

// The rank that was last most often, by whatever margin.
struct LastRank {
  int rank = 0;
  double fraction = 0;  // of all steps
};

// Steps that are not counted because one rank stood still in them.
struct Stalls {
  std::uint64_t steps = 0;
  double seconds = 0;          // sum over these steps
  double longest_seconds = 0;  // the longest of these steps
  int rank = 0;                // the rank that stood still in the longest one
};

// What the steps of a run cost. Times are means over steps and, if ranks differ, over ranks.
struct StepCosts {
  int world_size = 1;
  std::uint64_t steps = 0;  // counted
  // These four make up a step.
  double compute_seconds = 0;
  double exposed_seconds = 0;    // reductions that no rank's backward hid
  double data_seconds = 0;       // waiting for the loader
  double straggler_seconds = 0;  // waiting for the slowest rank

  bool on_cpu = false;  // which emulates 16-bit types

  std::size_t bytes = 0;  // reduced in a step
  // Set if at least ten steps' reductions were timed. Bus bandwidth as nccl-tests defines it, in
  // bytes per second.
  std::optional<double> bus_bandwidth = {};
  std::optional<double> overlap = {};  // fraction of the reductions' time hidden by backward

  // How many times as fast as one rank the job is: the work of all ranks together, minus the
  // lateness of stragglers, divided by the time of a step.
  double speed_up = 1;

  std::uint64_t pauses = 0;  // steps not counted, since they took many times as long as usual
  double pause_seconds = 0;  // sum over the pauses
  Stalls stalls = {};

  std::vector<Straggler> stragglers = {};  // the costliest first
  LastRank most_often_last = {};

  std::uint64_t idle_steps = 0;    // counted steps in which some rank had no samples
  double beside_idle_seconds = 0;  // the part of straggler_seconds that was waited in these

  [[nodiscard]] double step_seconds() const {
    return compute_seconds + exposed_seconds + data_seconds + straggler_seconds;
  }
};

// At most nine lines of plain text; the last line is the advice.
[[nodiscard]] std::string format_report(const StepCosts& costs);

// One line: the largest loss and what to do about it.
[[nodiscard]] std::string advice_on(const StepCosts& costs);

}  // namespace ddp
