// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "ddp/base/device.h"
#include "ddp/base/stream.h"
#include "ddp/base/time.h"
#include "ddp/cuda/cuda.h"
#include "ddp/cuda/device_clock.h"

namespace ddp::cu {

// The time at which a stream reached a point: an event on CUDA, a reading of the clock on the CPU.
class StreamMoment {
 public:
  explicit StreamMoment(Device device);

  // Records the moment at which the work that `stream` holds now has run.
  void take(Stream stream);
  // Blocks the host until the stream has reached the moment. Call take() first.
  void synchronize() const;

  // Seconds from `earlier` to this. Both must have been reached.
  [[nodiscard]] double seconds_since(const StreamMoment& earlier) const;
  // The moment on the host's clock. It must have been reached. On CUDA, `clock` must have a value,
  // which converts it.
  [[nodiscard]] Clock::time_point time(std::optional<DeviceClock>& clock) const;

 private:
  bool is_cuda_;
  Event event_;             // CUDA
  Clock::time_point time_;  // CPU
};

}  // namespace ddp::cu
