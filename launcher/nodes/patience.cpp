// SPDX-License-Identifier: MIT
#include "launcher/nodes/patience.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "ddp/base/net/poll_until.h"
#include "ddp/base/system/process_status.h"
#include "launcher/launch_error.h"

namespace ddp::launcher {
namespace {

constexpr Timeout kBetweenRemarks = std::chrono::seconds(5);

}  // namespace

Patience::Patience(Timeout timeout, SignalReader& signals, Console& console)
    : timeout_(timeout),
      next_remark_(Deadline::after(kBetweenRemarks)),
      signals_(signals),
      console_(console) {}

void Patience::wait(const std::function<std::string()>& state, Timeout pause) {
  throw_if_interrupted();
  if (remaining() == Timeout(0)) {
    throw LaunchError(fmt::format("gave up after {:g} s (--timeout-start): {}",
                                  std::chrono::duration<double>(timeout_).count(), state()));
  }
  look(state);
  pollfd entry{signals_.fd(), POLLIN, 0};
  poll_until({&entry, 1}, Deadline::after(pause));
  throw_if_interrupted();
}

void Patience::look(const std::function<std::string()>& state) {
  throw_if_interrupted();
  timer_.look();
  if (!next_remark_.passed()) return;
  next_remark_ = Deadline::after(kBetweenRemarks);
  console_.say("waiting: " + state());
  console_.flush();
}

Timeout Patience::remaining() { return std::max(Timeout(0), timeout_ - timer_.look()); }

void Patience::throw_if_interrupted() {
  while (const auto signal_number = signals_.next()) {
    if (!ends_job(*signal_number)) continue;
    throw LaunchError(signal_name(*signal_number) + " while waiting for the other nodes",
                      exit_code_after(*signal_number));
  }
}

}  // namespace ddp::launcher
