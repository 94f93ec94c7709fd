// SPDX-License-Identifier: MIT
#include "ddp/engine/step_stopwatch.h"

#include <algorithm>
#include <chrono>

namespace ddp {

StepStopwatch::StepStopwatch(Device device) : device_(device) {
  if (!device.is_cuda()) return;
  for (Step& each : steps_) {
    each.backward_end.event = cu::Event(device, cu::EventTiming::kEnabled);
    each.end.event = cu::Event(device, cu::EventTiming::kEnabled);
  }
}

void StepStopwatch::take(Moment& moment, Stream stream) const {
  if (device_.is_cuda()) {
    moment.event.record(stream);
  } else {
    moment.time = Clock::now();
  }
}

double StepStopwatch::seconds_between(const Moment& from, const Moment& to) const {
  if (device_.is_cuda()) return 1e-3 * static_cast<double>(to.event.milliseconds_since(from.event));
  return std::chrono::duration<double>(to.time - from.time).count();
}

void StepStopwatch::backward_ended(Stream stream) { take(step(ended_).backward_end, stream); }

void StepStopwatch::ended(Stream stream, double data_seconds, bool is_idle) {
  Step& current = step(ended_++);
  current.data_seconds = data_seconds;
  current.is_idle = is_idle;
  take(current.end, stream);
}

std::optional<StepStopwatch::Lap> StepStopwatch::next_lap() {
  if (ended_ <= next_lap_ + lag()) return std::nullopt;
  const std::uint64_t oldest = ended_ - std::min(ended_ - 1, lag() + kKept);
  const std::uint64_t number = std::max(next_lap_, oldest);
  next_lap_ = number + 1;
  const Step& current = step(number);
  const Step& before = step(number - 1);
  if (device_.is_cuda()) current.end.event.synchronize();
  return Lap{.step = number,
             .times = {.work_seconds = seconds_between(before.end, current.backward_end),
                       .data_seconds = current.data_seconds,
                       .is_idle = current.is_idle},
             .seconds = seconds_between(before.end, current.end)};
}

}  // namespace ddp
