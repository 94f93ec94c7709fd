// SPDX-License-Identifier: MIT
#include "launcher/verdict/casualties.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/verdict/verdict.h"

namespace ddp::launcher {
namespace {

constexpr Timeout kLastWords{200};
constexpr Timeout kTimeOfCause{1000};

// By itself, as with a flag that is wrong on every rank.
bool failed_alike(const Ending& ending, const Ending& first) {
  const bool by_itself = ending.when != Ending::When::kAfter && !ending.is_consequence();
  return by_itself && ending.pid != first.pid && ending.status == first.status && ending.record &&
         first.record && ending.record->message == first.record->message;
}

}  // namespace

void Casualties::record(Ending ending) {
  ending.when = when_ended(ending.pid);
  if (ending.is_failure() && !failed_at_) failed_at_ = Clock::now();
  endings_.push_back(std::move(ending));
}

// A worker that fails before the first failure was seen, even while the job is being stopped,
// failed by itself.
Ending::When Casualties::when_ended(pid_t pid) const {
  const bool was_dying = std::ranges::find(dying_, pid) != dying_.end();
  if (was_dying || !patience_end_) return Ending::When::kFirst;
  return patience_end_->passed() ? Ending::When::kAfter : Ending::When::kBefore;
}

bool Casualties::any_failed() const { return std::ranges::any_of(endings_, &Ending::is_failure); }

bool Casualties::knows_cause() const {
  return std::ranges::any_of(endings_, [](const Ending& ending) {
    return ending.is_failure() && !ending.is_consequence() && ending.when != Ending::When::kAfter;
  });
}

bool Casualties::is_cause_certain() const {
  return std::ranges::any_of(endings_, [](const Ending& ending) {
    return ending.is_failure() && !ending.may_be_consequence() &&
           ending.when != Ending::When::kAfter;
  });
}

Timeout Casualties::see_failure(std::vector<pid_t> dying) {
  dying_ = std::move(dying);
  const Timeout patience = is_cause_certain() ? kLastWords : kTimeOfCause;
  patience_end_ = Deadline::after(patience);
  return patience;
}

WorkerFailure Casualties::describe(int world_size, Clock::time_point start) const {
  WorkerFailure failure{.first = first_cause(endings_)};
  if (failure.first.record) failure.step = failure.first.record->step;
  failure.alike = static_cast<int>(std::ranges::count_if(
      endings_, [&](const Ending& each) { return failed_alike(each, failure.first); }));
  failure.others = world_size - 1 - static_cast<int>(finished().size()) - failure.alike;
  failure.after = *failed_at_ - start;
  return failure;
}

std::vector<int> Casualties::finished() const {
  std::vector<int> ranks;
  for (const Ending& ending : endings_) {
    if (ending.status == 0 && ending.when != Ending::When::kAfter) ranks.push_back(ending.rank);
  }
  std::ranges::sort(ranks);
  return ranks;
}

std::vector<int> Casualties::killed_on_request() const {
  std::vector<int> ranks;
  for (const Ending& ending : endings_) {
    const bool was_killed = WIFSIGNALED(ending.status) && WTERMSIG(ending.status) == SIGKILL;
    if (ending.was_requested && was_killed) ranks.push_back(ending.rank);
  }
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace ddp::launcher
