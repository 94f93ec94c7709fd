// SPDX-License-Identifier: MIT
#include "ddp/cuda/profiler_span.h"

#include <nvtx3/nvToolsExt.h>

namespace ddp::cu {

// Ranges by id, not by nesting: a step begins and ends on different threads where an autograd has
// its own.
ProfilerSpan::ProfilerSpan(const char* name) : id_(nvtxRangeStartA(name)), is_open_(true) {}

void ProfilerSpan::end() noexcept {
  if (std::exchange(is_open_, false)) nvtxRangeEnd(id_);
}

}  // namespace ddp::cu
