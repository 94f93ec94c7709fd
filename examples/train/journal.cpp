// SPDX-License-Identifier: MIT
#include "journal.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

namespace train {
namespace {

void write_to_stdout(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// "Accuracy/train"
std::string tag(std::string score_name, const char* where) {
  score_name.front() = static_cast<char>(std::toupper(score_name.front()));
  return score_name + "/" + where;
}

}  // namespace

Journal::Journal(const JournalOptions& options)
    : metrics_file_(options.metrics),
      score_name_(options.score_name),
      score_key_(lower_case(options.score_name)),
      progress_({.style = ddp::progress_style_of_stdout(), .log_every = options.log_every},
                write_to_stdout) {
  if (!options.metrics.empty()) {
    metrics_.emplace(options.metrics,
                     options.appends ? ddp::TextFileMode::kAppend : ddp::TextFileMode::kTruncate);
  }
  if (!options.log_dir.empty()) summaries_.emplace(options.log_dir);
}

void Journal::begin() {
  if (metrics_) metrics_->begin();
}

void Journal::say(std::string_view line) {
  progress_.end_line();
  write_to_stdout(fmt::format("{}\n", line));
}

void Journal::resumed(const TrainingState& from) {
  if (!metrics_) return;
  metrics_->write("resume", {{"epoch", from.position.epoch}, {"step", from.step}});
}

void Journal::step(const StepLine& line) {
  ddp::ProgressState progress = line.progress;
  progress.score_name = score_name_;
  progress_.update(progress);
  if (summaries_) {
    summaries_->add_scalar("Loss/train", progress.loss, line.step);
    summaries_->add_scalar(tag(score_name_, "train"), *progress.score, line.step);
    summaries_->add_scalar("learning_rate", line.learning_rate, line.step);
    summaries_->add_scalar("samples_per_second", progress.samples_per_second, line.step);
  }
  if (!metrics_) return;
  metrics_->write("step", {{"epoch", progress.epoch},
                           {"step", line.step},
                           {"loss", progress.loss},
                           {"learning_rate", line.learning_rate},
                           {score_key_, *progress.score},
                           {"samples_per_second", progress.samples_per_second},
                           {"step_ms", line.step_ms},
                           {"data_wait_ms", line.data_wait_ms}});
}

void Journal::tell(std::string_view where, const Evaluation& result) {
  say(fmt::format("{}: test {} {:.2f} %, test loss {}", where, score_name_, 100 * result.score,
                  ddp::format_loss(result.loss)));
}

void Journal::untrained(const Evaluation& result) { tell("nothing is left to train", result); }

void Journal::epoch(std::int64_t epoch, std::string_view where, std::int64_t step,
                    const Evaluation& result) {
  tell(where, result);
  if (summaries_) {
    summaries_->add_scalar("Loss/test", result.loss, step);
    summaries_->add_scalar(tag(score_name_, "test"), result.score, step);
  }
  if (!metrics_) return;
  metrics_->write("epoch",
                  {{"epoch", epoch}, {test_score_key(), result.score}, {"test_loss", result.loss}});
}

void Journal::end(const std::optional<Evaluation>& result, std::int64_t step,
                  const std::string& params_sha256) {
  if (!metrics_) return;
  if (!result) {
    metrics_->write("stopped", {{"step", step}, {"params_sha256", params_sha256}});
    return;
  }
  metrics_->write("final", {{test_score_key(), result->score},
                            {"test_loss", result->loss},
                            {"params_sha256", params_sha256}});
}

std::vector<std::filesystem::path> Journal::incomplete_files() const {
  std::vector<std::filesystem::path> files;
  if (metrics_ && metrics_->failed()) files.push_back(metrics_file_);
  if (summaries_ && summaries_->failed()) files.push_back(summaries_->path());
  return files;
}

}  // namespace train
