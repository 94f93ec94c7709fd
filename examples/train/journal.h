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
  ddp::ProgressState progress;  // the score as its accuracy
};

// What rank 0 tells of a training: on standard output, as JSON lines, to TensorBoard.
class Journal {
 public:
  // Throws FileError if a file cannot be written.
  explicit Journal(const JournalOptions& options);

  void say(std::string_view line);
  void resumed(const TrainingState& from);
  void step(const StepLine& line);
  // `where` is where the training stands, in words, and `step` its last one.
  void epoch(std::int64_t epoch, std::string_view where, std::int64_t step,
             const Evaluation& result);
  // Of a training that goes on from where nothing is left.
  void untrained(const Evaluation& result);
  // Without a result if the job was asked to stop, and did not evaluate.
  void end(const std::optional<Evaluation>& result, std::int64_t step,
           const std::string& params_sha256);
  // Those that could not be written to the end.
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
