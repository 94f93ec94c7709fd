// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/time.h"
#include "ddp/cuda/cuda.h"

namespace ddp::cu {

// Tells when events of a device happened, on the host's clock, to the few microseconds that it
// takes the host to notice one.
class DeviceClock {
 public:
  // Synchronises with `stream`.
  DeviceClock(Device device, Stream stream);

  // `event` has timing and is done.
  [[nodiscard]] Clock::time_point time_of(const Event& event) const;

 private:
  Event origin_;
  Clock::time_point origin_time_;
};

}  // namespace ddp::cu
