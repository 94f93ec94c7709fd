// SPDX-License-Identifier: MIT
#pragma once

#include <poll.h>

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "ddp/base/time.h"
#include "launcher/sink.h"

namespace ddp::launcher {

enum class Channel { kOut, kErr };

// The launcher's own stdout and stderr. Where both are one file (a terminal, 2>&1) they share one
// Sink, so that the order of lines survives and none is written into another.
class Console {
 public:
  Console(int stdout_fd, int stderr_fd);

  [[nodiscard]] Sink& sink(Channel channel) { return *sinks_[static_cast<std::size_t>(channel)]; }

  // A line of the launcher's own on stderr: "ddp-launch: <sentence>".
  void say(std::string_view sentence);
  // A line on stderr without that prefix.
  void quote(std::string_view line);

  // Writes what the readers take now. If stdout can take no more for good (a full disk), says so
  // once; a reader that has left (head) is no news.
  void flush();

  // Entries that poll(2) needs to wake up when a full pipe has room again.
  void add_poll_entries(std::vector<pollfd>& entries) const;
  [[nodiscard]] bool is_pending() const;

 private:
  static constexpr int kLauncher = -2;  // an owner of lines that no worker has

  std::array<std::shared_ptr<Sink>, 2> sinks_;
  bool loss_is_said_ = false;
};

}  // namespace ddp::launcher
