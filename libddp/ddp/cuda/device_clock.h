// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/time.h"
#include "ddp/cuda/cuda.h"

namespace ddp::cu {

// Tells when events of a device happened, on the host's clock, to the few microseconds that it
// takes the host to notice one. CUDA counts from event to event in float milliseconds, which lose a
// microsecond after ten seconds: so the origin is renewed, and events are to be asked for soon. One
// thread at a time.
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
