// SPDX-License-Identifier: MIT
#include "launcher/output/sink.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace ddp::launcher {
namespace {

// A pipe that polls writable takes PIPE_BUF bytes without blocking, and in one piece.
bool is_writable(int fd) {
  pollfd entry{fd, POLLOUT, 0};
  return ::poll(&entry, 1, 0) > 0;
}

// A terminal that polls writable may have room for less than is written, and write() then waits
// until somebody reads it, perhaps after a pause of ssh. O_NONBLOCK would hold for all processes
// that share `fd`, so this opens the terminal once more. Not open if `fd` is no terminal, or one of
// another user (after su), whose writes may block.
FileDescriptor open_without_blocking(int fd) {
  if (::isatty(fd) == 0) return {};
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  return FileDescriptor(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

}  // namespace

Sink::Sink(int fd) : fd_(fd), terminal_(open_without_blocking(fd)) {}

// What came last may be missing.
Sink::~Sink() {
  if (gap_.is_open() && is_writable(fd())) static_cast<void>(gap_.close(fd(), is_at_line_begin_));
}

void Sink::put(int owner, std::string_view prefix, std::string_view line, LineEnd end) {
  // A bar that begins with "\r" would return to a line that meanwhile belongs to another stream; do
  // not make a line of it. Without a prefix it stays what it is at the beginning of a line.
  if (open_owner_ != owner && line == "\r") {
    if (open_owner_ == kNobody && prefix.empty()) queue_ += line;
    return;
  }
  if (open_owner_ != owner) end_open_line();
  // A lone "\n" is the other half of a "\r\n" that came in two parts, or ends a bar.
  const bool continues = open_owner_ == owner && (open_end_ == LineEnd::kNone || line == "\n");
  if (!continues) queue_ += prefix;
  queue_ += line;
  open_owner_ = end == LineEnd::kNewline ? kNobody : owner;
  open_end_ = end;
  ++line_count_;
}

void Sink::end_open_line() {
  if (open_owner_ != kNobody) queue_ += '\n';
  open_owner_ = kNobody;
}

std::string_view Sink::next_piece() const {
  const std::string_view all = std::string_view(queue_).substr(begin_);
  if (all.size() <= PIPE_BUF) return all;
  const std::string_view block = all.substr(0, PIPE_BUF);
  const std::size_t last_end = block.find_last_of("\n\r");
  return last_end == std::string_view::npos ? block : block.substr(0, last_end + 1);
}

void Sink::flush() {
  while (is_pending() && is_writable(fd())) {
    const int error = gap_.close(fd(), is_at_line_begin_);
    if (error == EAGAIN) break;
    if (error != 0) return drop(error);
    const std::string_view piece = next_piece();
    const ssize_t written = ::write(fd(), piece.data(), piece.size());
    if (written > 0) {
      begin_ += static_cast<std::size_t>(written);
      is_at_line_begin_ = queue_[begin_ - 1] == '\n';
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      return drop(errno);
    }
  }
  compact();
}

void Sink::drop(int error) {
  gap_.add(queue_.size() - begin_, error);
  queue_.clear();
  begin_ = 0;
  error_ = error;
}

// Amortised: moves the rest only when at least half of the buffer has been written.
void Sink::compact() {
  if (2 * begin_ < queue_.size()) return;
  queue_.erase(0, begin_);
  begin_ = 0;
}

}  // namespace ddp::launcher
