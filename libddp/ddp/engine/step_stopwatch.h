// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ddp/base/device.h"
#include "ddp/base/stream.h"
#include "ddp/cuda/stream_moment.h"
#include "ddp/engine/step_summary.h"

namespace ddp {

// Takes the times of every step that StepStatistics needs: on the CPU by the clock, on CUDA by two
// events a step on the caller's stream. There a step's times are known when the device has run it,
// and the host, which runs ahead, must not wait for that: so laps are told lag() steps late, which
// is also the same on all ranks. Touches no heap, and never blocks unless the host is further ahead
// than that.
//
// Laps need not be asked for in each step: kKept of them are kept.
//
// On CUDA the wait for data is still the host's: what of it the device spent on earlier work is
// counted, too.
class StepStopwatch {
 public:
  struct Lap {
    std::uint64_t step = 0;
    RankTimes times = {};
    double seconds = 0;  // from the end of the step before to the end of this one
  };

  explicit StepStopwatch(Device device);

  // How many steps must have ended after a step before its lap is told.
  [[nodiscard]] std::uint64_t lag() const { return device_.is_cuda() ? 3 : 0; }

  // `stream` holds all of the step's backward passes.
  void backward_ended(Stream stream);
  // `stream` is behind all reductions.
  void ended(Stream stream, double data_seconds, bool is_idle);

  static constexpr std::size_t kKept = 12;
  // Of the next step that was not told yet, if it is at least lag() behind the last one that ended.
  // None of step 0, before which none ended.
  [[nodiscard]] std::optional<Lap> next_lap();

 private:
  struct Step {
    explicit Step(Device device) : backward_end(device), end(device) {}

    cu::StreamMoment backward_end;
    cu::StreamMoment end;
    double data_seconds = 0;
    bool is_idle = false;
  };
  static constexpr std::size_t kSteps = 16;  // kKept, the lag, and one before them

  [[nodiscard]] Step& step(std::uint64_t number) { return steps_[number % kSteps]; }

  Device device_;
  std::vector<Step> steps_;  // kSteps, used in turn
  std::uint64_t ended_ = 0;
  std::uint64_t next_lap_ = 1;
};

}  // namespace ddp
