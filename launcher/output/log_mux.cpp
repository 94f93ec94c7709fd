// SPDX-License-Identifier: MIT
#include "launcher/output/log_mux.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "ddp/base/error.h"
#include "launcher/earlier.h"

namespace ddp::launcher {
namespace {

// Lines further up than this are quoted again with the verdict, so that its last lines show
// everything.
constexpr std::size_t kLinesInView = 12;
constexpr std::size_t kLongestTailLine = 1000;

// The output that a dead worker has left is at most a pipe's capacity (1 MiB unless root); a living
// descendant may write forever.
constexpr int kDrainReads = 20;

}  // namespace

void LogMux::add(LogSource source) {
  const bool is_err = source.channel == Channel::kErr;
  streams_.push_back({.rank = source.rank,
                      .channel = source.channel,
                      .pipe = std::move(source.pipe),
                      .is_shown = source.is_shown,
                      .log = LogFile(std::move(source.log_file)),
                      .prefix = prefix_of(source.rank),
                      .owner = 2 * source.rank + (is_err ? 1 : 0)});
}

std::string LogMux::prefix_of(int rank) const {
  if (rank == 0) return "";
  return (host_.empty() ? "" : host_ + " ") + "rank " + std::to_string(rank) + "| ";
}

void LogMux::add_poll_entries(std::vector<pollfd>& entries) const {
  for (const Stream& stream : streams_) {
    const bool waits = stream.is_shown && console_.sink(stream.channel).is_congested();
    // poll(2) skips negative descriptors.
    entries.push_back({waits ? -1 : stream.pipe.get(), POLLIN, 0});
  }
}

void LogMux::read_ready(std::span<const pollfd> entries) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (entries[i].revents != 0) read_once(streams_[i]);
  }
}

LogMux::ReadResult LogMux::read_once(Stream& stream) {
  const ssize_t size = ::read(stream.pipe.get(), buffer_.data(), buffer_.size());
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return ReadResult::kNothingNow;
  const auto put = [this, &stream](std::string_view line, LineEnd end) { emit(stream, line, end); };
  if (size <= 0) {
    flush(stream);
    stream.pipe.reset();
    return ReadResult::kClosed;
  }
  const std::string_view bytes(buffer_.data(), static_cast<std::size_t>(size));
  write_log(stream, bytes);
  stream.splitter.feed(bytes, put);
  if (!stream.splitter.has_rest() || stream.splitter.ends_on_block()) {
    stream.flush_at.reset();
  } else if (!stream.flush_at) {
    stream.flush_at = Deadline::after(kPartialLineDelay);
  }
  return ReadResult::kGotBytes;
}

void LogMux::write_log(Stream& stream, std::string_view bytes) {
  const int error = stream.log.write(bytes);
  if (error == 0 || std::exchange(loss_is_said_, true)) return;
  console_.say("cannot write " + stream.log.path() + ": " + error_text(error) +
               "; where log files are incomplete, a line in them says so");
}

// The newline of a line whose beginning another stream's line has meanwhile ended is not shown.
void LogMux::emit(Stream& stream, std::string_view line, LineEnd end) {
  const bool was_cut = std::exchange(stream.is_cut, end == LineEnd::kNone);
  if (stream.is_shown) {
    Sink& sink = console_.sink(stream.channel);
    const bool is_over = was_cut && line == "\n" && !sink.is_open_for(stream.owner);
    if (!is_over) sink.put(stream.owner, stream.prefix, line, end);
  }
  if (stream.channel == Channel::kErr) remember(stream, line, end);
}

// Keeps lines as a terminal finally shows them: text after "\r" replaces the line, text after a
// partial line continues it.
void LogMux::remember(Stream& stream, std::string_view line, LineEnd end) {
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  std::deque<TailLine>& tail = stream.tail;
  const bool is_open = !tail.empty() && tail.back().end != LineEnd::kNewline;
  if (is_open && (line.empty() || tail.back().end == LineEnd::kNone)) {
    tail.back().text += line.substr(0, kLongestTailLine - tail.back().text.size());
    tail.back().end = end;
    return;
  }
  if (line.empty()) return;
  if (is_open) tail.pop_back();
  TailLine entry{std::string(line.substr(0, kLongestTailLine)), end, std::nullopt};
  if (stream.is_shown) entry.shown_at = console_.sink(stream.channel).line_count();
  tail.push_back(std::move(entry));
  if (tail.size() > kTailLines + kEarlierLines) tail.pop_front();
}

void LogMux::drain(int rank) {
  for (Stream& stream : streams_) {
    if (stream.rank == rank) drain(stream);
  }
}

void LogMux::drain(Stream& stream) {
  for (int reads = 0; reads < kDrainReads && stream.pipe.is_open(); ++reads) {
    if (read_once(stream) != ReadResult::kGotBytes) break;
  }
}

void LogMux::finish() {
  for (Stream& stream : streams_) {
    drain(stream);
    flush(stream);
    stream.pipe.reset();
  }
}

void LogMux::flush(Stream& stream) {
  stream.splitter.flush(
      [this, &stream](std::string_view line, LineEnd end) { emit(stream, line, end); });
  stream.flush_at.reset();
}

void LogMux::flush_partial_lines() {
  for (Stream& stream : streams_) {
    if (stream.flush_at && stream.flush_at->passed()) flush(stream);
  }
}

std::optional<Deadline> LogMux::next_flush() const {
  std::optional<Deadline> next;
  for (const Stream& stream : streams_) next = earlier(next, stream.flush_at);
  return next;
}

StderrTail LogMux::stderr_tail(int rank) const {
  const auto stream = std::ranges::find_if(
      streams_, [rank](const Stream& s) { return s.rank == rank && s.channel == Channel::kErr; });
  if (stream == streams_.end()) return {};
  const std::size_t now = console_.sink(Channel::kErr).line_count();
  const auto is_in_view = [now](const TailLine& line) {
    return line.shown_at && now - *line.shown_at < kLinesInView;
  };
  const std::deque<TailLine>& kept = stream->tail;
  const auto first = kept.end() - static_cast<std::ptrdiff_t>(std::min(kept.size(), kTailLines));
  StderrTail tail;
  tail.is_in_view = std::all_of(first, kept.end(), is_in_view);
  std::ranges::transform(first, kept.end(), std::back_inserter(tail.lines), &TailLine::text);
  std::ranges::transform(kept.begin(), first, std::back_inserter(tail.earlier), &TailLine::text);
  return tail;
}

}  // namespace ddp::launcher
