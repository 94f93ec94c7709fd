// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ddp/base/file_descriptor.h"
#include "launcher/output/gap.h"
#include "launcher/output/line_splitter.h"

namespace ddp::launcher {

// One file that receives lines of several streams: the launcher's stdout, its stderr, or both if
// they are the same. Writing never blocks: lines are queued, and flush() writes what the reader
// accepts, each line of up to PIPE_BUF bytes in one piece. What an error (a closed pipe, a full
// disk) hits is dropped; later lines are tried again, behind one that says how much is missing.
class Sink {
 public:
  // `fd` stays open while the sink is used.
  explicit Sink(int fd);
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  // Queues a line of stream `owner`, with the prefix if the line begins here. Ends another stream's
  // open line (LineEnd::kNone or kCarriageReturn) first.
  void put(int owner, std::string_view prefix, std::string_view line, LineEnd end);

  // Whether that stream's line is open, so that more of it can follow.
  [[nodiscard]] bool is_open_for(int owner) const { return open_owner_ == owner; }

  void flush();

  // What to poll for room.
  [[nodiscard]] int fd() const { return terminal_.is_open() ? terminal_.get() : fd_; }
  [[nodiscard]] bool is_pending() const { return begin_ < queue_.size(); }
  // True if so much is queued that the streams which feed this sink should not be read further.
  [[nodiscard]] bool is_congested() const { return queue_.size() - begin_ > kCongestionBytes; }
  // The errno of the last write that failed; 0 if none did.
  [[nodiscard]] int error() const { return error_; }
  // Lines put so far.
  [[nodiscard]] std::size_t line_count() const { return line_count_; }

 private:
  static constexpr std::size_t kCongestionBytes = 256 * 1024;
  static constexpr int kNobody = -1;

  void end_open_line();
  [[nodiscard]] std::string_view next_piece() const;
  void drop(int error);
  void compact();

  int fd_;
  FileDescriptor terminal_;  // open if fd_ is a terminal
  std::string queue_;
  std::size_t begin_ = 0;  // bytes of queue_ already written
  int open_owner_ = kNobody;
  LineEnd open_end_ = LineEnd::kNewline;
  std::size_t line_count_ = 0;
  Gap gap_;
  bool is_at_line_begin_ = true;  // of what was written
  int error_ = 0;
};

}  // namespace ddp::launcher
