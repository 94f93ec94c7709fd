// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ddp/base/time.h"

namespace ddp {

struct ProgressState {
  std::int64_t epoch = 0;  // counts from 0; shown from 1
  std::int64_t epochs = 1;
  std::int64_t step = 0;  // steps done in this epoch
  std::int64_t steps = 1;
  std::int64_t skipped = 0;  // steps before a resume, counted in `step`, that took no time
  double loss = 0;
  std::optional<double> score = {};  // 0 to 1; left out of the text if empty
  std::string_view score_name = "accuracy";
  double samples_per_second = 0;
  std::chrono::duration<double> elapsed{};  // since the epoch began

  // The time left in this epoch at the current pace; nothing before the first step.
  [[nodiscard]] std::optional<std::chrono::seconds> time_left() const;
};

// "0.4321"; "1.5506e+12" if the absolute value is 10^6 or more; "inf", "-inf" or "nan".
[[nodiscard]] std::string format_loss(double loss);

// "epoch 1/5 [=====>    ] 120/938 loss 0.4321 accuracy 85.1 % 12345 samples/s ETA 0:12".
[[nodiscard]] std::string format_progress_bar(const ProgressState& state);
// "epoch 1/5 step 120/938 loss 0.4321 accuracy 85.1 % 12345 samples/s ETA 0:12".
[[nodiscard]] std::string format_progress_line(const ProgressState& state);

enum class ProgressStyle { kBar, kLines };

// kBar if standard output is a terminal, or a pipe to a launcher whose output is one (the launcher
// sets DDP_LAUNCH_TTY to the terminal's path); else kLines.
[[nodiscard]] ProgressStyle progress_style_of_stdout();

// The width of that terminal, which may change at any time; 0 if there is none, or it does not
// tell.
[[nodiscard]] std::size_t terminal_columns();

struct ProgressOptions {
  ProgressStyle style = ProgressStyle::kLines;
  std::int64_t log_every = 100;  // for kLines: steps between lines; below 1, only ends of epochs
  std::function<std::size_t()> columns = terminal_columns;  // for kBar: its width; 0: unlimited
};

// Shows the progress of a training: a bar that is redrawn in place, at most ten times a second (in
// a narrow terminal only the numbers, or as many as fit into a line), or plain lines. Both show the
// end of each epoch. For rank 0 only. Not thread-safe.
class Progress {
 public:
  // Receives text to be shown at once; the text contains its own \r and \n.
  using Sink = std::function<void(std::string_view)>;

  Progress(const ProgressOptions& options, Sink sink);

  void update(const ProgressState& state, Clock::time_point now = Clock::now());
  // Ends the line of an unfinished bar, before other text is written to the terminal.
  void end_line();

 private:
  void draw_bar(const ProgressState& state, Clock::time_point now);
  [[nodiscard]] bool is_line_due(const ProgressState& state);

  ProgressOptions options_;
  Sink sink_;
  std::int64_t epoch_ = -1;  // of the last update
  std::int64_t lines_ = 0;   // multiples of log_every up to the last update
  std::optional<Clock::time_point> drawn_at_;
  std::size_t drawn_width_ = 0;
};

}  // namespace ddp
