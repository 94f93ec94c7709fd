// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddp/engine/straggler_finder.h"

namespace ddp {

// Steps left out because one rank stood still in them.
struct Stalls {
  std::uint64_t steps = 0;
  double seconds = 0;          // of them all
  double longest_seconds = 0;  // of one
  int rank = 0;                // whose the longest was
};

// What the steps of a run cost. Times are means over steps and, where ranks differ, over ranks.
struct StepCosts {
  int world_size = 1;
  std::uint64_t steps = 0;  // counted
  // These four make up a step.
  double compute_seconds = 0;
  double exposed_seconds = 0;    // reductions that no rank's backward hid
  double data_seconds = 0;       // waiting for the loader
  double straggler_seconds = 0;  // waiting for the slowest rank

  std::size_t bytes = 0;  // reduced in a step
  // Where the reductions of at least ten steps were timed. Bus bandwidth as nccl-tests defines it,
  // in bytes per second.
  std::optional<double> bus_bandwidth = {};
  std::optional<double> overlap = {};  // fraction of the reductions' time that backward hid

  // How often one rank alone, at the pace of these, would make a step in the time of one: the work
  // of all ranks together, without what stragglers were late, over the time of a step.
  double speed_up = 1;

  std::uint64_t pauses = 0;  // steps left out, since they took many times as long as usual
  double pause_seconds = 0;  // of them all
  Stalls stalls = {};

  std::vector<Straggler> stragglers = {};  // the costliest first
  StragglerFinder::Last most_often_last = {};

  [[nodiscard]] double step_seconds() const {
    return compute_seconds + exposed_seconds + data_seconds + straggler_seconds;
  }
};

// At most nine lines of plain text; the last is the advice.
[[nodiscard]] std::string format_report(const StepCosts& costs);

// The largest loss and what to do about it, in one line.
[[nodiscard]] std::string advice_on(const StepCosts& costs);

}  // namespace ddp
