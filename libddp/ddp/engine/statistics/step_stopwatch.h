// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ddp/base/device.h"
#include "ddp/base/stream.h"
#include "ddp/collectives/wait_time.h"
#include "ddp/cuda/stream_moment.h"
#include "ddp/engine/statistics/step_summary.h"

namespace ddp {

// Measures, for every step, the times that StepStatistics needs: on the CPU by the clock, on CUDA
// by two events per step on the caller's stream. On CUDA a step's times are known only when the
// device has run the step, and the host, which runs ahead, must not wait for that. Laps are
// therefore returned lag() steps late, the same number on all ranks. Does not allocate after
// construction, and blocks only if the host is more than lag() steps ahead.
//
// Laps need not be requested in each step: the last kKept of them are kept.
//
// A rank may meet the others before its backward ends, as in batch norms that are synchronised. On
// the CPU, its waits there are not work: otherwise a late rank would make all ranks look equally
// late. On CUDA they are, since the device waits there; so they are in a step whose wait() is
// called by another thread than the last one's, since each thread counts its own.
//
// On CUDA the wait for data is still measured on the host. It therefore includes time in which the
// device was busy with earlier work.
class StepStopwatch {
 public:
  struct Lap {
    std::uint64_t step = 0;
    RankTimes times = {};
    double seconds = 0;  // from the end of the previous step to the end of this one
  };

  explicit StepStopwatch(Device device);

  // How many later steps must have ended before a step's lap is returned. If laps are requested
  // after each step, none comes later than that.
  [[nodiscard]] std::uint64_t lag() const { return device_.is_cuda() ? kLongestLag : 0; }
  static constexpr std::uint64_t kLongestLag = 3;

  // Backward has ended: the passes of this step are all on `stream`.
  void backward_ended(Stream stream);
  // The step has ended: `stream` is ordered behind all its reductions.
  void ended(Stream stream, double data_seconds, bool is_idle);

  static constexpr std::size_t kKept = 12;
  // The lap of the next step that was not returned yet, if at least lag() later steps have ended.
  // Step 0 has no lap, because no step ended before it.
  [[nodiscard]] std::optional<Lap> next_lap();

 private:
  struct Step {
    explicit Step(Device device) : backward_end(device), end(device) {}

    cu::StreamMoment backward_end;
    cu::StreamMoment end;
    TimeWaited waited;         // until backward_end
    TimeWaited waited_by_end;  // until end
    double data_seconds = 0;
    bool is_idle = false;
  };
  static constexpr std::size_t kSteps = kKept + kLongestLag + 1;  // and the step before

  [[nodiscard]] Step& step(std::uint64_t number) { return steps_[number % kSteps]; }
  [[nodiscard]] double work_seconds(const Step& current, const Step& before) const;

  Device device_;
  std::vector<Step> steps_;  // kSteps, used in turn
  std::uint64_t ended_ = 0;
  std::uint64_t next_lap_ = 1;
};

}  // namespace ddp
