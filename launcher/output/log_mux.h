// SPDX-License-Identifier: MIT
#pragma once

#include <poll.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/file_descriptor.h"
#include "ddp/base/time.h"
#include "launcher/output/console.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/log_file.h"

namespace ddp::launcher {

// One of a worker's two streams.
struct LogSource {
  int rank = 0;
  Channel channel = Channel::kOut;
  FileDescriptor pipe;
  bool is_shown = true;    // on the console
  std::string log_file{};  // a path; empty: none
};

// The last lines of a rank's stderr, the oldest first.
struct StderrTail {
  std::vector<std::string> lines;    // at most kTailLines
  std::vector<std::string> earlier;  // at most kEarlierLines, which came before
  bool is_in_view = false;           // all of `lines` are among the last lines of the console
};

// Reads the pipes of all workers, writes log files, and puts whole lines on the console: rank 0's
// as they are, others with the prefix "rank 3| ", or "host-b rank 3| " if there are several hosts.
// An incomplete line is shown after kPartialLineDelay; a progress bar's "\r" counts as the end of a
// line. Streams that are not shown are read, too, so that no worker ever blocks on its output. The
// last lines of each stderr are kept for the verdict.
class LogMux {
 public:
  // `host` is this one's name if there are several.
  explicit LogMux(Console& console, std::string host = "")
      : console_(console), host_(std::move(host)) {}

  void add(LogSource source);

  // One entry for each stream, in order; closed ones and those whose sink is congested are muted.
  void add_poll_entries(std::vector<pollfd>& entries) const;
  // Reads the streams that are ready; `entries` are those of add_poll_entries(), filled by poll.
  void read_ready(std::span<const pollfd> entries);

  // Reads everything that is already in the pipes of one rank, or of all.
  void drain(int rank);
  void finish();

  // Shows lines that have been incomplete for too long; next_flush() says when one is due.
  void flush_partial_lines();
  [[nodiscard]] std::optional<Deadline> next_flush() const;

  [[nodiscard]] StderrTail stderr_tail(int rank) const;
  // False once a log file could not be written, which a line has said.
  [[nodiscard]] bool files_are_complete() const { return !loss_is_said_; }

  static constexpr Timeout kPartialLineDelay{50};
  static constexpr std::size_t kTailLines = 10;
  // The text of an exception may stand above a long stack trace, as LibTorch's does.
  static constexpr std::size_t kEarlierLines = 200;

 private:
  struct TailLine {
    std::string text;
    LineEnd end;
    std::optional<std::size_t> shown_at;  // the sink's line count then
  };
  struct Stream {
    int rank;
    Channel channel;
    FileDescriptor pipe;
    bool is_shown;
    LogFile log;
    std::string prefix;
    int owner;            // tags this stream's lines in a Sink
    bool is_cut = false;  // what was put there last was the beginning of a line
    LineSplitter splitter{};
    std::optional<Deadline> flush_at{};
    std::deque<TailLine> tail{};  // the last lines; used for stderr only
  };

  enum class ReadResult { kGotBytes, kNothingNow, kClosed };

  ReadResult read_once(Stream& stream);
  [[nodiscard]] std::string prefix_of(int rank) const;
  void write_log(Stream& stream, std::string_view bytes);
  void emit(Stream& stream, std::string_view line, LineEnd end);
  void remember(Stream& stream, std::string_view line, LineEnd end);
  void drain(Stream& stream);
  void flush(Stream& stream);

  Console& console_;
  std::string host_;
  std::vector<Stream> streams_;
  bool loss_is_said_ = false;  // whether a lost log file has been reported
  std::string buffer_ = std::string(64 * 1024, '\0');
};

}  // namespace ddp::launcher
