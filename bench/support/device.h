// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ddp/base/device.h"
#include "ddp/base/stream.h"

namespace ddp::bench {

// "cpu" or "cuda", which is GPU 0; throws Skipped where there is none.
[[nodiscard]] Device device_named(const std::string& name);

struct DeviceSampling {
  int warm_up = 3;
  int samples = 20;
  int calls = 1;  // timed together
};

// Microseconds that a call's work takes on the stream it is put on, by events around `calls` of
// them; on the CPU by the clock.
[[nodiscard]] std::vector<double> microseconds_on(Device device, Stream stream,
                                                  const std::function<void()>& call,
                                                  const DeviceSampling& sampling = {});

}  // namespace ddp::bench
