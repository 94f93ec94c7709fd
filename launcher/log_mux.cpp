// SPDX-License-Identifier: MIT
#include "launcher/log_mux.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ddp::launcher {
namespace {

// A verdict quotes lines that are further up than this; the rest is in view anyway.
constexpr std::size_t kLinesInView = 20;
constexpr std::size_t kLongestTailLine = 1000;

// What a dead worker left is at most a pipe's capacity (1 MiB unless root); a living descendant
// may go on writing for ever.
constexpr int kDrainReads = 20;

}  // namespace

void LogMux::add(int rank, Channel channel, FileDescriptor pipe) {
  const bool is_err = channel == Channel::kErr;
  streams_.push_back({.rank = rank,
                      .channel = channel,
                      .pipe = std::move(pipe),
                      .is_shown = is_err ? show_.shows_stderr(rank) : show_.shows_stdout(rank),
                      .prefix = rank == 0 ? "" : "rank " + std::to_string(rank) + "| ",
                      .owner = 2 * rank + (is_err ? 1 : 0)});
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
  stream.splitter.feed({buffer_.data(), static_cast<std::size_t>(size)}, put);
  if (!stream.splitter.has_rest() || stream.splitter.ends_on_block()) {
    stream.flush_at.reset();
  } else if (!stream.flush_at) {
    stream.flush_at = Deadline::after(kPartialLineDelay);
  }
  return ReadResult::kGotBytes;
}

void LogMux::emit(Stream& stream, std::string_view line, LineEnd end) {
  if (stream.is_shown) {
    console_.sink(stream.channel).put(stream.owner, stream.prefix, line, end);
  }
  if (stream.channel == Channel::kErr) remember(stream, line);
}

void LogMux::remember(Stream& stream, std::string_view line) {
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) return;
  TailLine entry{std::string(line.substr(0, kLongestTailLine)), std::nullopt};
  if (stream.is_shown) entry.shown_at = console_.sink(stream.channel).line_count();
  stream.tail.push_back(std::move(entry));
  if (stream.tail.size() > kTailLines) stream.tail.pop_front();
}

void LogMux::drain(int rank) {
  for (Stream& stream : streams_) {
    if (stream.rank != rank) continue;
    for (int reads = 0; reads < kDrainReads && stream.pipe.is_open(); ++reads) {
      if (read_once(stream) != ReadResult::kGotBytes) break;
    }
  }
}

void LogMux::finish() {
  for (Stream& stream : streams_) {
    drain(stream.rank);
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
  for (const Stream& stream : streams_) {
    if (stream.flush_at && (!next || stream.flush_at->time_point() < next->time_point())) {
      next = stream.flush_at;
    }
  }
  return next;
}

std::vector<std::string> LogMux::unseen_stderr_tail(int rank) {
  const auto stream = std::ranges::find_if(
      streams_, [rank](const Stream& s) { return s.rank == rank && s.channel == Channel::kErr; });
  if (stream == streams_.end()) return {};
  const std::size_t now = console_.sink(Channel::kErr).line_count();
  const auto is_in_view = [now](const TailLine& line) {
    return line.shown_at && now - *line.shown_at < kLinesInView;
  };
  if (std::ranges::all_of(stream->tail, is_in_view)) return {};
  std::vector<std::string> lines;
  for (const TailLine& line : stream->tail) lines.push_back(line.text);
  return lines;
}

}  // namespace ddp::launcher
