// SPDX-License-Identifier: MIT
#include "ddp/engine/statistics/step_stopwatch.h"

#include <algorithm>
#include <chrono>

namespace ddp {

StepStopwatch::StepStopwatch(Device device) : device_(device) {
  steps_.reserve(kSteps);
  for (std::size_t i = 0; i < kSteps; ++i) steps_.emplace_back(device);
}

void StepStopwatch::backward_ended(Stream stream) {
  Step& current = step(ended_);
  current.backward_end.take(stream);
  current.waited = time_waited();
}

[[gnu::hot]] void StepStopwatch::ended(Stream stream, double data_seconds, bool is_idle) {
  Step& current = step(ended_++);
  current.data_seconds = data_seconds;
  current.is_idle = is_idle;
  current.end.take(stream);
  current.waited_by_end = time_waited();
}

double StepStopwatch::work_seconds(const Step& current, const Step& before) const {
  const double all = current.backward_end.seconds_since(before.end);
  if (device_.is_cuda()) return all;
  const std::chrono::duration<double> waited = waited_between(before.waited_by_end, current.waited);
  return all - waited.count();
}

[[gnu::hot]] std::optional<StepStopwatch::Lap> StepStopwatch::next_lap() {
  if (ended_ <= next_lap_ + lag()) return std::nullopt;
  const std::uint64_t oldest = ended_ - std::min(ended_ - 1, lag() + kKept);
  const std::uint64_t number = std::max(next_lap_, oldest);
  next_lap_ = number + 1;
  const Step& current = step(number);
  const Step& before = step(number - 1);
  before.end.synchronize();  // it may lie on another stream
  current.end.synchronize();
  return Lap{.step = number,
             .times = {.work_seconds = work_seconds(current, before),
                       .data_seconds = current.data_seconds,
                       .is_idle = current.is_idle},
             .seconds = current.end.seconds_since(before.end)};
}

}  // namespace ddp
