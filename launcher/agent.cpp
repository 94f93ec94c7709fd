// SPDX-License-Identifier: MIT
#include "launcher/agent.h"

#include <fmt/core.h>
#include <poll.h>

#include <csignal>
#include <utility>
#include <vector>

#include "launcher/poll_timeout.h"

namespace ddp::launcher {
namespace {

// A reader of our output that stands still must not hold up the end of an interrupted job.
constexpr Timeout kInterruptedDrainTimeout{1000};

}  // namespace

Agent::Agent(WorkerPlan plan, JobContext job, SignalReader& signals, Console& console)
    : plan_(std::move(plan)), job_(std::move(job)), signals_(signals), console_(console) {}

int Agent::run() {
  const Outcome outcome = Generation(plan_, job_, signals_, console_).run();
  if (outcome.failure) report(*outcome.failure);
  drain_console(outcome.interrupted_by.has_value());
  if (outcome.interrupted_by) return 128 + *outcome.interrupted_by;
  return outcome.failure ? exit_code_of(outcome.failure->first.status) : 0;
}

void Agent::report(const Failure& failure) {
  if (!failure.last_lines.empty()) {
    console_.say(fmt::format("last stderr lines of rank {}:", failure.first.rank));
    for (const std::string& line : failure.last_lines) console_.quote(line);
  }
  console_.say(verdict(failure));
}

// Our reader may be a pager with a person behind it, who is not to lose lines: the wait has no end
// of its own then, but a signal ends it.
void Agent::drain_console(bool is_interrupted) {
  const auto limit =
      is_interrupted ? std::optional(Deadline::after(kInterruptedDrainTimeout)) : std::nullopt;
  for (console_.flush(); console_.is_pending(); console_.flush()) {
    std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
    console_.add_poll_entries(entries);
    const int ready = ::poll(entries.data(), entries.size(), poll_timeout({limit}));
    if (ready == 0 && limit && limit->passed()) return;
    if (const auto signal_number = signals_.next(); signal_number && *signal_number != SIGCHLD) {
      return;
    }
  }
}

}  // namespace ddp::launcher
