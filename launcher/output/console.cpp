// SPDX-License-Identifier: MIT
#include "launcher/output/console.h"

#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/printable.h"

namespace ddp::launcher {
namespace {

bool are_same_file(int a, int b) {
  struct stat info_a {};
  struct stat info_b {};
  return ::fstat(a, &info_a) == 0 && ::fstat(b, &info_b) == 0 && info_a.st_dev == info_b.st_dev &&
         info_a.st_ino == info_b.st_ino;
}

}  // namespace

Console::Console(int stdout_fd, int stderr_fd) {
  sinks_[0] = std::make_shared<Sink>(stdout_fd);
  sinks_[1] = are_same_file(stdout_fd, stderr_fd) ? sinks_[0] : std::make_shared<Sink>(stderr_fd);
}

void Console::say(std::string_view sentence) {
  sink(Channel::kErr).put(kLauncher, "ddp-launch: ", printable(sentence) + "\n", LineEnd::kNewline);
}

void Console::quote(std::string_view line) {
  sink(Channel::kErr).put(kLauncher, "  ", std::string(line) + "\n", LineEnd::kNewline);
}

void Console::flush() {
  sinks_[0]->flush();
  const int error = sinks_[0]->error();
  if (error != 0 && !std::exchange(loss_is_said_, true)) say(describe_loss(error));
  sinks_[1]->flush();
}

// A reader that has left (head) is not a failure, but the user must learn that the job has not
// ended.
std::string Console::describe_loss(int error) const {
  const std::string files =
      log_folder_.empty() ? "--log-dir keeps it in files" : "log files: " + log_folder_;
  if (error == EPIPE) {
    return "stdout is closed: the job goes on, and the output of the ranks is no longer shown (" +
           files + ")";
  }
  return "cannot write to stdout: " + error_text(error) +
         ": the job goes on, and meanwhile the output of the ranks is not shown (" + files + ")";
}

void Console::add_poll_entries(std::vector<pollfd>& entries) const {
  for (const auto& sink : sinks_) {
    if (sink->is_pending()) entries.push_back({sink->fd(), POLLOUT, 0});
  }
}

bool Console::is_pending() const { return sinks_[0]->is_pending() || sinks_[1]->is_pending(); }

}  // namespace ddp::launcher
