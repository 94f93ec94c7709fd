// SPDX-License-Identifier: MIT
#include "ddp/cuda/profiler_span.h"

#include <nvtx3/nvToolsExt.h>

namespace ddp::cu {

// Ranges by id, not by nesting: a step begins and ends on different threads where an autograd has
// its own.
void ProfilerSpan::begin(const char* name) noexcept {
  end();
  id_ = nvtxRangeStartA(name);
  is_open_ = true;
}

void ProfilerSpan::end() noexcept {
  if (is_open_) nvtxRangeEnd(id_);
  is_open_ = false;
}

}  // namespace ddp::cu
