// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>

#include "ddp/base/stream.h"

namespace ddp::bench {

struct DeviceWork {
  std::size_t kernels = 0;
  std::size_t copies = 0;  // including fills
  std::size_t bytes = 0;   // of those copies and fills
};

// Counts the work that `call` enqueues on the stream, and on other streams that events connect to
// it. The work does not run: it is captured into a CUDA graph, whose nodes are counted.
[[nodiscard]] DeviceWork device_work_of(Stream stream, const std::function<void()>& call);

}  // namespace ddp::bench
