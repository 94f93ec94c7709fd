// SPDX-License-Identifier: MIT
#pragma once

#include <poll.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/socket.h"
#include "ddp/base/time.h"
#include "launcher/console.h"
#include "launcher/options.h"

namespace ddp::launcher {

// Reads the pipes of all workers and puts whole lines on the console: rank 0's as they are, others
// behind "rank 3| ". A line that does not end is shown after kPartialLineDelay; a progress bar's
// "\r" counts as an end. Streams that are not shown are read all the same, so that no worker ever
// blocks on its output, and the last lines of each stderr are remembered for the verdict.
class LogMux {
 public:
  LogMux(Console& console, Show show) : console_(console), show_(std::move(show)) {}

  void add(int rank, Channel channel, FileDescriptor pipe);

  // One entry per stream, in order; closed ones and those whose sink is congested are muted.
  void add_poll_entries(std::vector<pollfd>& entries) const;
  // The same entries, filled by poll.
  void read_ready(std::span<const pollfd> entries);

  // Reads everything that already lies in the pipes of one rank, or of all.
  void drain(int rank);
  void finish();

  // Shows lines that have been open for too long; next_flush() says when that is due.
  void flush_partial_lines();
  [[nodiscard]] std::optional<Deadline> next_flush() const;

  // The last stderr lines of a rank, oldest first; empty if they are all on the screen still.
  [[nodiscard]] std::vector<std::string> unseen_stderr_tail(int rank);

  static constexpr Timeout kPartialLineDelay{50};
  static constexpr std::size_t kTailLines = 10;

 private:
  struct TailLine {
    std::string text;
    std::optional<std::size_t> shown_at;  // the sink's line count then
  };
  struct Stream {
    int rank;
    Channel channel;
    FileDescriptor pipe;
    bool is_shown;
    std::string prefix;
    int owner;  // of lines in a Sink
    LineSplitter splitter{};
    std::optional<Deadline> flush_at{};
    std::deque<TailLine> tail{};  // of stderr
  };

  enum class ReadResult { kGotBytes, kNothingNow, kClosed };

  ReadResult read_once(Stream& stream);
  void emit(Stream& stream, std::string_view line, LineEnd end);
  void remember(Stream& stream, std::string_view line);
  void flush(Stream& stream);

  Console& console_;
  Show show_;
  std::vector<Stream> streams_;
  std::string buffer_ = std::string(64 * 1024, '\0');
};

}  // namespace ddp::launcher
