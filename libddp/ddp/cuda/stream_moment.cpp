// SPDX-License-Identifier: MIT
#include "ddp/cuda/stream_moment.h"

#include <chrono>

namespace ddp::cu {

StreamMoment::StreamMoment(Device device) : is_cuda_(device.is_cuda()) {
  if (is_cuda_) event_ = Event(device, EventTiming::kEnabled);
}

[[gnu::hot]] void StreamMoment::take(Stream stream) {
  if (is_cuda_) {
    event_.record(stream);
  } else {
    time_ = Clock::now();
  }
}

void StreamMoment::synchronize() const {
  if (is_cuda_) event_.synchronize();
}

[[gnu::hot]] double StreamMoment::seconds_since(const StreamMoment& earlier) const {
  if (is_cuda_) return 1e-3 * static_cast<double>(event_.milliseconds_since(earlier.event_));
  return std::chrono::duration<double>(time_ - earlier.time_).count();
}

Clock::time_point StreamMoment::time(std::optional<DeviceClock>& clock) const {
  return is_cuda_ ? clock->time_of(event_) : time_;
}

}  // namespace ddp::cu
