// SPDX-License-Identifier: MIT
#include "ddp/cuda/device_clock.h"

namespace ddp::cu {

DeviceClock::DeviceClock(Device device) : stream_(device), origin_(device, EventTiming::kEnabled) {
  renew();
}

void DeviceClock::renew() {
  origin_.record(stream_.view());
  origin_.synchronize();
  origin_time_ = Clock::now();
}

Clock::time_point DeviceClock::time_of(const Event& event) {
  if (Clock::now() - origin_time_ > kRenewal) renew();
  const std::chrono::duration<float, std::milli> since(event.milliseconds_since(origin_));
  return origin_time_ + std::chrono::duration_cast<Clock::duration>(since);
}

}  // namespace ddp::cu
