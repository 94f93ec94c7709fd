// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/ddp_options.h"

namespace ddp {

// Throws std::invalid_argument that says what is wrong with the step.
[[noreturn]] void refuse_step(const ProcessGroup& group, const StepOptions& step);
// Breaks the group and throws std::logic_error: two ranks would train on the same samples.
[[noreturn]] void refuse_part(ProcessGroup& group, int data_rank);

// Refuses numbers that are negative or not finite, samples of a rank whose data have run out, and
// another rank's part of the data.
inline void check_step(ProcessGroup& group, const StepOptions& step) {
  const bool are_numbers = step.samples >= 0 && std::isfinite(step.samples) &&
                           step.data_seconds >= 0 && std::isfinite(step.data_seconds);
  if (!are_numbers || (!step.is_active && step.samples > 0)) refuse_step(group, step);
  const bool is_part = step.data_world_size != 0 && step.data_world_size == group.world_size();
  if (is_part && step.data_rank != group.rank()) refuse_part(group, step.data_rank);
}

}  // namespace ddp
