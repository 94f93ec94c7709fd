// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "ddp/base/device.h"
#include "ddp/base/stream.h"
#include "ddp/base/time.h"
#include "ddp/cuda/cuda.h"
#include "ddp/cuda/device_clock.h"

namespace ddp::cu {

// When a stream got to a point: an event on CUDA, a look at the clock on the CPU.
class StreamMoment {
 public:
  explicit StreamMoment(Device device);

  // Now, once what `stream` holds has run.
  void take(Stream stream);
  // Blocks the host until the stream has got there; it must have been taken.
  void synchronize() const;

  // Both were reached.
  [[nodiscard]] double seconds_since(const StreamMoment& earlier) const;
  // On the host's clock, and reached. On CUDA the device's clock tells, which must be given.
  [[nodiscard]] Clock::time_point time(std::optional<DeviceClock>& clock) const;

 private:
  bool is_cuda_;
  Event event_;             // CUDA
  Clock::time_point time_;  // CPU
};

}  // namespace ddp::cu
