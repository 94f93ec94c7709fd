// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/cuda/device_clock.h"
#include "ddp/cuda/stream_moment.h"
#include "ddp/engine/bucket_layout.h"
#include "ddp/engine/statistics/rank_step.h"
#include "ddp/engine/statistics/step_history.h"
#include "ddp/io/text_file.h"
#include "ddp/io/trace_writer.h"

namespace train {

// Moments of a step on the trainer's stream, in this order; ddp::StepTimes has those of the engine.
enum class StepMoment : std::uint8_t {
  kForwardBegin,
  kForwardEnd,
  kOptimizerBegin,  // backward has ended, with all reductions
  kEnd
};

struct TraceFiles {
  std::filesystem::path trace = {};     // empty: none
  std::filesystem::path step_svg = {};  // empty: none

  [[nodiscard]] bool any() const { return !trace.empty() || !step_svg.empty(); }
};

// --trace and --step-svg: the last steps of all ranks, each as two lanes (what the trainer does,
// and the reductions of the buckets), which shows how much of the reductions is hidden; and a
// picture of one step. Rank 0 writes them at the end. All ranks construct it, add their steps, and
// finish it.
class StepTrace {
 public:
  // Throws FileError on rank 0 if a file cannot be written.
  StepTrace(ddp::ProcessGroup& group, const ddp::BucketLayout& layout, const TraceFiles& files,
            std::string caption);

  // On rank 0, once the start has succeeded: older files are emptied. Throws FileError.
  void begin();
  // Call it for each moment of a step, in their order.
  void take(StepMoment moment, ddp::Stream stream);
  // Adds one backward pass, all moments of which were taken; `data` is the wait for its batch. On
  // CUDA this waits for the device.
  void add(std::int64_t step, const ddp::Interval& data, ddp::StepTimes engine);
  void finish();
  // After finish(), on rank 0: the files that could not be written completely.
  [[nodiscard]] std::vector<std::filesystem::path> incomplete_files() const;

 private:
  struct Lanes {
    ddp::TraceWriter::Lane training;
    ddp::TraceWriter::Lane reductions;
  };

  [[nodiscard]] ddp::Clock::time_point advance_to(ddp::Clock::time_point time);
  [[nodiscard]] ddp::Clock::time_point advance_to(StepMoment moment);
  void write(std::span<const ddp::RankStep> ranks);
  void add_lanes(std::span<const ddp::RankStep> ranks);
  void write(const Lanes& lanes, const ddp::RankStep& step);

  TraceFiles files_;
  std::string caption_;
  ddp::StepHistory history_;
  std::vector<ddp::cu::StreamMoment> moments_;  // by StepMoment
  std::optional<ddp::cu::DeviceClock> clock_;   // on CUDA
  ddp::Clock::time_point last_;                 // the latest time of the trainer so far
  // On rank 0.
  std::optional<ddp::TraceWriter> writer_;
  std::optional<ddp::TextFile> svg_;
  std::vector<Lanes> lanes_;  // by rank
};

}  // namespace train
