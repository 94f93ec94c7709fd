// SPDX-License-Identifier: MIT
#pragma once

#include <poll.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddp/base/time.h"
#include "launcher/output/sink.h"

namespace ddp::launcher {

enum class Channel { kOut, kErr };

// The launcher's own stdout and stderr. If both are the same file (a terminal, 2>&1) they share one
// Sink, which keeps lines in order and never writes one inside another.
class Console {
 public:
  Console(int stdout_fd, int stderr_fd);

  [[nodiscard]] Sink& sink(Channel channel) { return *sinks_[static_cast<std::size_t>(channel)]; }

  // Writes a line of the launcher to stderr: "ddp-launch: <sentence>", which is made printable,
  // since it may contain what workers, other processes or the store have said.
  void say(std::string_view sentence);
  // Writes a line to stderr without that prefix, as it is.
  void quote(std::string_view line);

  // The folder of the log files, which the message names when stdout is lost.
  void set_log_folder(std::string folder) { log_folder_ = std::move(folder); }

  // Writes as much as the readers accept now. Once stdout cannot be written (a full disk, a reader
  // that has left), says so, but not again.
  void flush();

  // Entries that poll(2) needs to wake up when a full pipe has room again.
  void add_poll_entries(std::vector<pollfd>& entries) const;
  [[nodiscard]] bool is_pending() const;

 private:
  static constexpr int kLauncher = -2;  // the owner of lines that come from no worker

  [[nodiscard]] std::string describe_loss(int error) const;

  std::array<std::shared_ptr<Sink>, 2> sinks_;
  std::string log_folder_;  // empty: there are no log files
  bool loss_is_said_ = false;
};

}  // namespace ddp::launcher
