// SPDX-License-Identifier: MIT
#include "ddp/cuda/profiler_span.h"

#include <nvtx3/nvToolsExt.h>

namespace ddp::cu {

// Spans are NVTX ranges with an id instead of nested ones, because a step may begin and end on
// different threads: some autograd engines run backward on their own.
[[gnu::hot]] void ProfilerSpan::begin(const char* name) noexcept {
  end();
  id_ = nvtxRangeStartA(name);
  is_open_ = true;
}

[[gnu::hot]] void ProfilerSpan::end() noexcept {
  if (is_open_) nvtxRangeEnd(id_);
  is_open_ = false;
}

}  // namespace ddp::cu
