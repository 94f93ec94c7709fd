// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/time.h"
#include "ddp/cuda/cuda.h"

namespace ddp::cu {

// Converts CUDA events to the host's clock, with an error of the few microseconds that the host
// takes to notice an event. CUDA measures the time between two events in float milliseconds, whose
// resolution is only about a microsecond after ten seconds. The origin is therefore renewed, and an
// event should be converted soon after it happened. Not thread-safe.
class DeviceClock {
 public:
  explicit DeviceClock(Device device);

  // `event` must have timing and be done.
  [[nodiscard]] Clock::time_point time_of(const Event& event);

 private:
  static constexpr Clock::duration kRenewal = std::chrono::seconds(10);

  void renew();

  OwnedStream stream_;  // carries no other work, so renew() does not wait for any
  Event origin_;
  Event other_;  // for renew()
  Clock::time_point origin_time_;
};

}  // namespace ddp::cu
