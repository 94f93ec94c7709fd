// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/time.h"
#include "ddp/cuda/cuda.h"

namespace ddp::cu {

// Converts the times of a device's events to the host's clock, with an error of the few
// microseconds in which the host notices an event. CUDA measures between events in float
// milliseconds, which lose a microsecond after ten seconds; so the origin is renewed, and times
// must be asked for soon. For one thread at a time.
class DeviceClock {
 public:
  explicit DeviceClock(Device device);

  // `event` has timing and is done.
  [[nodiscard]] Clock::time_point time_of(const Event& event);

 private:
  static constexpr Clock::duration kRenewal = std::chrono::seconds(10);

  void renew();

  OwnedStream stream_;  // nothing else is on it, so that renew() waits for nothing
  Event origin_;
  Clock::time_point origin_time_;
};

}  // namespace ddp::cu
