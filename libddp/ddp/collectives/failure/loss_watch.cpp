// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/loss_watch.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ddp/base/error.h"

namespace ddp {

using Fate = PeerRoll::Fate;

LossWatch::LossWatch(const GroupConfig& config, Options options, const FlightRecorder& recorder,
                     const PeerRoll& roll, FirstError& first_error)
    : rank_(config.rank),
      names_(config),
      options_(std::move(options)),
      recorder_(recorder),
      roll_(roll),
      first_error_(first_error) {}

// Reads the recorder's events only if nothing was completed since the last look. The operations of
// a batch may have different peers.
void LossWatch::look() {
  const FlightRecorder::Position position = recorder_.position();
  const bool moved = std::exchange(done_, position.done) != position.done;
  if (moved || position.submitted <= position.done) return;
  const std::optional<FlightRecorder::Pending> pending = recorder_.oldest_pending();
  if (!pending || Clock::now() - pending->since < options_.patience) return;
  const std::vector<PeerRoll::Lost> all_lost = options_.find_lost();
  if (all_lost.empty()) return;
  for (const FlightRecorder::Event& event : pending->operations) {
    look_at(event.signature, pending->since, all_lost);
  }
}

void LossWatch::look_at(const CollectiveSignature& operation, Clock::time_point since,
                        const std::vector<PeerRoll::Lost>& all_lost) {
  for (const PeerRoll::Lost& lost : all_lost) {
    if (is_transfer(operation.kind) && operation.root != lost.rank) continue;
    const auto seen = seen_.try_emplace(lost.rank, Clock::now()).first->second;
    const std::string what =
        why_it_is_missing(lost, operation, Clock::now() - std::max(seen, since));
    if (what.empty()) continue;
    const std::string name = lost.name.empty() ? roll_.names({lost.rank}) : lost.name;
    const std::string advice = lost.fate == Fate::kLeft ? advice_on_leaving(operation) : "";
    return first_error_.set(PeerError("[" + options_.backend + "] " + name + what + ", while " +
                                      names_.rank(rank_) + " is in " + to_string(operation) +
                                      purpose_of_pending(recorder_) + names_.of_group() + advice));
  }
}

// What happened to a lost rank; empty if the operation may still end without it.
std::string LossWatch::why_it_is_missing(const PeerRoll::Lost& lost,
                                         const CollectiveSignature& operation,
                                         Clock::duration age) const {
  if (lost.fate == Fate::kDied) return age >= options_.for_dead ? " died" : "";
  if (lost.fate == Fate::kUnknown) return age >= options_.for_unknown ? " was lost" : "";
  const bool may_have_done_its_part = is_transfer(operation.kind);
  const bool is_missing = !may_have_done_its_part || age >= options_.for_unknown;
  return is_missing && roll_.left_before(lost.rank, operation) ? " left the group" : "";
}

}  // namespace ddp
