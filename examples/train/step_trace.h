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
#include "ddp/engine/bucket_layout.h"
#include "ddp/engine/statistics/rank_step.h"
#include "ddp/engine/statistics/step_history.h"
#include "ddp/io/text_file.h"
#include "ddp/io/trace_writer.h"

namespace train {

// The times of the host in a step; ddp::StepTimes has those of the engine.
struct HostTimes {
  ddp::Clock::time_point begin = {};     // waiting for the batch
  ddp::Clock::time_point data_end = {};  // the batch is there
  ddp::Clock::time_point forward_end = {};
  ddp::Clock::time_point backward_end = {};  // with all reductions
  ddp::Clock::time_point end = {};           // with the optimizer
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

  // Adds one backward pass.
  void add(std::int64_t step, const HostTimes& host, ddp::StepTimes engine);
  void finish();
  // After finish(), on rank 0: the files that could not be written completely.
  [[nodiscard]] std::vector<std::filesystem::path> incomplete_files() const;

 private:
  struct Lanes {
    ddp::TraceWriter::Lane training;
    ddp::TraceWriter::Lane reductions;
  };

  void write(std::span<const ddp::RankStep> ranks);
  void add_lanes(std::span<const ddp::RankStep> ranks);
  void write(const Lanes& lanes, const ddp::RankStep& step);

  TraceFiles files_;
  std::string caption_;
  ddp::StepHistory history_;
  // On rank 0.
  std::optional<ddp::TraceWriter> writer_;
  std::optional<ddp::TextFile> svg_;
  std::vector<Lanes> lanes_;  // by rank
};

}  // namespace train
