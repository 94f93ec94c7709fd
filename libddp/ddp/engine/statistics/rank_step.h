// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "ddp/base/time.h"
#include "ddp/engine/statistics/step_times.h"

namespace ddp {

// One step of one rank: the times that the engine recorded, and those of the code around it.
struct RankStep {
  int rank = 0;
  std::int64_t step = 0;
  StepTimes engine = {};
  std::optional<Interval> data = {};  // waiting for the batch
  std::optional<Interval> forward = {};
  std::optional<Interval> optimizer = {};
};

}  // namespace ddp
