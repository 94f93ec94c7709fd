// SPDX-License-Identifier: MIT
#include "launcher/run/end_watch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "ddp/base/rank_list.h"

namespace ddp::launcher {
namespace {

// With less time left than this, nothing is said: the processes are killed before anybody could
// read it.
constexpr Timeout kWorthTelling{1000};

}  // namespace

void EndWatch::note_end() {
  if (!next_) next_ = Deadline::after(kPeriod);
}

std::string EndWatch::look_at_workers(const std::vector<Worker>& workers) {
  next_ = Deadline::after(kPeriod);
  // Ctrl-Z stops the guardian, and by it the workers; `fg` continues both.
  const auto guardian = read_process(::getppid());
  if (has_told_stopped_ || (guardian && guardian->is_stopped())) return "";
  std::vector<int> ended, stopped;
  std::string pids;
  for (const Worker& worker : workers) {
    const auto process = worker.has_ended() ? std::nullopt : read_process(worker.pid());
    if (worker.has_ended()) ended.push_back(worker.rank());
    if (!process || process->state != 'T') continue;  // 't' is a debugger's
    stopped.push_back(worker.rank());
    pids += fmt::format(" {}", worker.pid());
  }
  if (stopped.empty() || ended.empty()) return "";
  has_told_stopped_ = true;
  return fmt::format("{} {} ended, but {} {} stopped (SIGSTOP): kill -CONT{} continues {}",
                     rank_list(ended), ended.size() == 1 ? "has" : "have", rank_list(stopped),
                     stopped.size() == 1 ? "is" : "are", pids, stopped.size() == 1 ? "it" : "them");
}

std::string EndWatch::look_at_survivors(const std::vector<ProcessStat>& survivors,
                                        std::optional<Deadline> killed_at) {
  next_ = Deadline::after(kPeriod);
  const bool is_soon = killed_at && killed_at->remaining() < kWorthTelling;
  if (survivors.empty() || !killed_at || is_soon) return "";
  if (std::exchange(has_told_survivors_, true)) return "";
  constexpr std::size_t kShown = 3;
  std::string names;
  for (std::size_t i = 0; i < std::min(kShown, survivors.size()); ++i) {
    names += (i == 0 ? "" : ", ") + describe_process(survivors[i].pid);
  }
  if (survivors.size() > kShown) names += fmt::format(" and {} more", survivors.size() - kShown);
  return fmt::format(
      "the ranks have ended, but not all that they started: {}; what still runs in {:.0f} s is "
      "killed",
      names, std::chrono::duration<double>(killed_at->remaining()).count());
}

}  // namespace ddp::launcher
