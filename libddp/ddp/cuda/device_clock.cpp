// SPDX-License-Identifier: MIT
#include "ddp/cuda/device_clock.h"

#include <utility>

namespace ddp::cu {

DeviceClock::DeviceClock(Device device)
    : stream_(device),
      origin_(device, EventTiming::kEnabled),
      other_(device, EventTiming::kEnabled) {
  renew();
}

// Takes the best of several tries: on a busy host, some are interrupted.
void DeviceClock::renew() {
  constexpr int kTries = 5;
  Clock::duration shortest = Clock::duration::max();
  for (int i = 0; i < kTries; ++i) {
    const Clock::time_point begin = Clock::now();
    other_.record(stream_.view());
    other_.synchronize();
    const Clock::time_point end = Clock::now();
    if (end - begin >= shortest) continue;
    shortest = end - begin;
    origin_time_ = end;
    std::swap(origin_, other_);
  }
}

Clock::time_point DeviceClock::time_of(const Event& event) {
  if (Clock::now() - origin_time_ > kRenewal) renew();
  const std::chrono::duration<float, std::milli> since(event.milliseconds_since(origin_));
  return origin_time_ + std::chrono::duration_cast<Clock::duration>(since);
}

}  // namespace ddp::cu
