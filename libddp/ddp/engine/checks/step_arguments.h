// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/ddp_options.h"

namespace ddp {

// Throws std::invalid_argument that says what is wrong with the step.
[[noreturn]] void refuse_step(const ProcessGroup& group, const StepOptions& step);

// Refuses numbers that are negative or not finite, and samples of a rank whose data have run out.
inline void check_step(const ProcessGroup& group, const StepOptions& step) {
  const bool are_numbers = step.samples >= 0 && std::isfinite(step.samples) &&
                           step.data_seconds >= 0 && std::isfinite(step.data_seconds);
  if (!are_numbers || (!step.is_active && step.samples > 0)) refuse_step(group, step);
}

}  // namespace ddp
