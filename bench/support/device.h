// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ddp/base/device.h"
#include "ddp/base/stream.h"

namespace ddp::bench {

// The device for "cpu" or "cuda" (GPU 0). Throws Skipped if there is no GPU.
[[nodiscard]] Device device_named(const std::string& name);

struct DeviceSampling {
  int warm_up = 3;
  int samples = 20;
  int calls = 1;  // in one timing
};

// Samples of the microseconds that a call's work takes on the stream, measured by events before and
// after `calls` calls; on the CPU by the clock.
[[nodiscard]] std::vector<double> microseconds_on(Device device, Stream stream,
                                                  const std::function<void()>& call,
                                                  const DeviceSampling& sampling = {});

}  // namespace ddp::bench
