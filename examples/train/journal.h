// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/io/metrics_writer.h"
#include "ddp/io/progress.h"
#include "ddp/io/summary_writer.h"
#include "training_state.h"

namespace train {

struct JournalOptions {
  std::filesystem::path metrics;  // JSON lines; empty: none
  std::filesystem::path log_dir;  // TensorBoard; empty: none
  std::int64_t log_every = 100;
  bool appends = false;    // to the metrics of a training that goes on
  std::string score_name;  // "accuracy"
};

// Means over the steps since the last line.
struct StepLine {
  std::int64_t step = 0;  // since the beginning
  double learning_rate = 0;
  double step_ms = 0;
  double data_wait_ms = 0;
  ddp::ProgressState progress;  // with a score; Journal gives it its name
};

// Rank 0's output about a training: on standard output, as JSON lines, and for TensorBoard.
class Journal {
 public:
  // Throws FileError if a file cannot be written.
  explicit Journal(const JournalOptions& options);

  // The start has succeeded: a new training's metrics replace those of an older one. Throws
  // FileError.
  void begin();
  void say(std::string_view line);
  // Call it before other output to the terminal, which may show an unfinished progress bar.
  void end_line() { progress_.end_line(); }
  void resumed(const TrainingState& from);
  void step(const StepLine& line);
  // `where` describes the position in the training in words; `step` is the last step.
  void epoch(std::int64_t epoch, std::string_view where, std::int64_t step,
             const Evaluation& result);
  // For a training that resumes after its last epoch.
  void untrained(const Evaluation& result);
  // Without a result if the job was asked to stop and did not evaluate.
  void end(const std::optional<Evaluation>& result, std::int64_t step,
           const std::string& params_sha256);
  // The files that could not be written completely.
  [[nodiscard]] std::vector<std::filesystem::path> incomplete_files() const;

 private:
  void tell(std::string_view where, const Evaluation& result);
  [[nodiscard]] std::string test_score_key() const { return "test_" + score_key_; }

  std::filesystem::path metrics_file_;
  std::string score_name_;
  std::string score_key_;  // in lower case
  std::optional<ddp::MetricsWriter> metrics_;
  std::optional<ddp::SummaryWriter> summaries_;
  ddp::Progress progress_;
};

}  // namespace train
