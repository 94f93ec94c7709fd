// SPDX-License-Identifier: MIT
#include "ddp/cuda/profiler_span.h"

#include <nvtx3/nvToolsExt.h>

namespace ddp::cu {

// Ranges have ids instead of nesting, because an autograd may begin and end a step on different
// threads.
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
