// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// How a rank spent a step up to the reductions, by its own clock: the reductions make all ranks
// equally late, so a slow one shows only before them.
struct RankTimes {
  double work_seconds = 0;  // from the end of its last wait() until its last gradient was ready
  double data_seconds = 0;  // how much of that it waited for data
};

}  // namespace ddp
