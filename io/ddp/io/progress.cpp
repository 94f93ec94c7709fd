// SPDX-License-Identifier: MIT
#include "ddp/io/progress.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "ddp/base/file_descriptor.h"

namespace ddp {
namespace {

constexpr std::int64_t kBarWidth = 20;
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

std::string bar(const ProgressState& state) {
  const std::int64_t steps = std::max<std::int64_t>(state.steps, 1);
  const std::int64_t done = std::clamp<std::int64_t>(kBarWidth * state.step / steps, 0, kBarWidth);
  std::string text(static_cast<std::size_t>(kBarWidth), ' ');
  text.replace(0, static_cast<std::size_t>(done), static_cast<std::size_t>(done), '=');
  if (done < kBarWidth) text[static_cast<std::size_t>(done)] = '>';
  return text;
}

std::string clock_time(std::optional<std::chrono::seconds> time) {
  if (!time) return "-:--";
  const auto total = time->count();
  const auto hours = total / 3600;
  const auto minutes = total / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60);
  return fmt::format("{}:{:02}", minutes, total % 60);
}

std::string tail(const ProgressState& state) {
  const std::string score =
      state.score ? fmt::format(" {} {:.1f} %", state.score_name, 100 * *state.score) : "";
  return fmt::format("{}/{} loss {}{} {:.0f} samples/s ETA {}", state.step, state.steps,
                     format_loss(state.loss), score, state.samples_per_second,
                     clock_time(state.time_left()));
}

std::string_view launcher_terminal() {
  const char* path = std::getenv("DDP_LAUNCH_TTY");
  return path == nullptr ? "" : path;
}

}  // namespace

std::optional<std::chrono::seconds> ProgressState::time_left() const {
  const std::int64_t done = step - skipped;
  if (done <= 0) return std::nullopt;
  const auto left = static_cast<double>(std::max<std::int64_t>(steps - step, 0));
  return std::chrono::round<std::chrono::seconds>(elapsed * (left / static_cast<double>(done)));
}

std::string format_loss(double loss) {
  if (std::isnan(loss)) return "nan";  // without the sign that fmt would show
  return std::abs(loss) < 1e6 ? fmt::format("{:.4f}", loss) : fmt::format("{:.4e}", loss);
}

std::string format_progress_bar(const ProgressState& state) {
  return fmt::format("epoch {}/{} [{}] {}", state.epoch + 1, state.epochs, bar(state), tail(state));
}

std::string format_progress_line(const ProgressState& state) {
  return fmt::format("epoch {}/{} step {}", state.epoch + 1, state.epochs, tail(state));
}

std::size_t terminal_columns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) return size.ws_col;
  const FileDescriptor terminal(::open(std::string(launcher_terminal()).c_str(),
                                       O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  return ::ioctl(terminal.get(), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

ProgressStyle progress_style_of_stdout() {
  const bool is_terminal = !launcher_terminal().empty() || ::isatty(STDOUT_FILENO) != 0;
  return is_terminal ? ProgressStyle::kBar : ProgressStyle::kLines;
}

Progress::Progress(const ProgressOptions& options, Sink sink)
    : options_(options), sink_(std::move(sink)) {}

void Progress::update(const ProgressState& state, Clock::time_point now) {
  if (options_.style == ProgressStyle::kBar) {
    draw_bar(state, now);
    return;
  }
  if (is_line_due(state) || state.step == state.steps) sink_(format_progress_line(state) + '\n');
}

// Not every step is shown here: after a resume, the multiples of log_every may be left out.
bool Progress::is_line_due(const ProgressState& state) {
  if (options_.log_every < 1) return false;
  if (std::exchange(epoch_, state.epoch) != state.epoch) {
    lines_ = state.skipped / options_.log_every;
  }
  const std::int64_t lines = state.step / options_.log_every;
  return std::exchange(lines_, lines) != lines;
}

void Progress::end_line() {
  if (drawn_width_ > 0) sink_("\n");
  drawn_width_ = 0;
}

void Progress::draw_bar(const ProgressState& state, Clock::time_point now) {
  const bool last = state.step == state.steps;
  if (!last && drawn_at_ && now - *drawn_at_ < kRedrawInterval) return;
  // A text that reached the last column could go on in the next line, and would not be redrawn.
  const std::size_t columns = options_.columns();
  const std::size_t limit = columns == 0 ? std::string::npos : columns - 1;
  std::string text = format_progress_bar(state);
  if (text.size() > limit) text = format_progress_line(state).substr(0, limit);
  const std::size_t width = text.size();
  text.resize(std::max(width, std::min(drawn_width_, limit)), ' ');  // wipe the longer text before
  sink_('\r' + text + (last ? "\n" : ""));
  drawn_at_ = now;
  drawn_width_ = last ? 0 : width;
}

}  // namespace ddp
