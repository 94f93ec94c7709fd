// SPDX-License-Identifier: MIT
#include "launcher/verdict.h"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>

#include "launcher/signals.h"

namespace ddp::launcher {

Ending first_cause(std::span<const Ending> suspects) {
  const auto by_signal = [](const Ending& ending) { return WIFSIGNALED(ending.status); };
  auto cause = std::ranges::find_if(suspects, by_signal);
  if (cause == suspects.end()) cause = std::ranges::find_if(suspects, &Ending::is_failure);
  return *cause;
}

std::string describe_status(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("exited with code {}", WEXITSTATUS(status));
  return fmt::format("was killed by {}{}", signal_name(WTERMSIG(status)),
                     WCOREDUMP(status) ? " (core dumped)" : "");
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string verdict(const Failure& failure) {
  const Ending& first = failure.first;
  if (first.rank == Failure::kNoRank) return failure.message;
  const std::string head = fmt::format("rank {} (pid {}) {} after {:.1f} s", first.rank, first.pid,
                                       describe_status(first.status), failure.after.count());
  if (failure.others == 0) return head;
  return fmt::format("{}; {} other rank{} stopped because of it", head, failure.others,
                     failure.others == 1 ? "" : "s");
}

}  // namespace ddp::launcher
