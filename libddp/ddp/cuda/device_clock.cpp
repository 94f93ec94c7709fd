// SPDX-License-Identifier: MIT
#include "ddp/cuda/device_clock.h"

namespace ddp::cu {

DeviceClock::DeviceClock(Device device, Stream stream) : origin_(device, EventTiming::kEnabled) {
  origin_.record(stream);
  origin_.synchronize();
  origin_time_ = Clock::now();
}

Clock::time_point DeviceClock::time_of(const Event& event) const {
  const std::chrono::duration<float, std::milli> since(event.milliseconds_since(origin_));
  return origin_time_ + std::chrono::duration_cast<Clock::duration>(since);
}

}  // namespace ddp::cu
