// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/cuda/device_clock.h"
#include "ddp/cuda/stream_moment.h"
#include "ddp/engine/bucket_layout.h"
#include "ddp/engine/statistics/step_stopwatch.h"
#include "ddp/engine/statistics/step_times.h"

namespace ddp {

// Records the times of one step after the other: on the CPU by reading the clock, on CUDA by events
// on the stream, which are read when the times are requested. Only the constructor and times()
// allocate.
class StepRecorder {
 public:
  StepRecorder(ProcessGroup& group, const BucketLayout& layout);

  void begin();
  void ready(std::size_t bucket, Stream producer);
  void launched(std::size_t bucket, Work work);
  void backward_ended(Stream consumer);
  void ended(Stream consumer);

  // The total time of the reductions of the step that ended `steps_ago` (< kKeptSteps) steps before
  // the last one. 0 if one of them is not known to be done, or too old for the group to know.
  static constexpr std::size_t kKeptSteps = StepStopwatch::kLongestLag + 1;
  [[nodiscard]] double reduction_seconds(std::size_t steps_ago) const;
  // The times of the last step. On CUDA this waits for the device.
  [[nodiscard]] StepTimes times();

 private:
  struct Mark {
    cu::StreamMoment moment;
    bool is_taken = false;  // in this step
  };
  struct BucketMarks {
    std::size_t size_bytes = 0;
    Mark ready;
  };
  using Works = std::vector<Work>;  // by bucket; the group is null if nothing was launched

  static void take(Mark& mark, Stream stream);
  // The time of the mark, or of begin() if the mark was not taken.
  [[nodiscard]] Clock::time_point time_of(const Mark& mark);

  std::optional<cu::DeviceClock> clock_;  // CUDA only
  Clock::time_point begin_;
  Mark backward_end_;
  Mark end_;
  std::vector<BucketMarks> buckets_;
  std::array<Works, kKeptSteps> works_;  // of the last steps, used in turn
  std::size_t turn_ = 0;                 // of the step whose passes are recorded now
  bool has_launched_ = false;            // in this step: its last pass launches all buckets
};

}  // namespace ddp
