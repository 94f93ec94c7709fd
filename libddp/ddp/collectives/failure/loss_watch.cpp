// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/loss_watch.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/collectives/failure/failure_sentences.h"

namespace ddp {

LossWatch::LossWatch(const GroupConfig& config, Options options, const FlightRecorder& recorder,
                     const PeerRoll& roll, FirstError& first_error)
    : names_(config),
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
  const std::vector<LostRank> all_lost = options_.find_lost();
  if (all_lost.empty()) return;
  for (const FlightRecorder::Event& event : pending->operations) {
    look_at(event.signature, pending->since, all_lost);
  }
}

void LossWatch::look_at(const CollectiveSignature& operation, Clock::time_point since,
                        const std::vector<LostRank>& all_lost) {
  for (const LostRank& lost : all_lost) {
    if (is_transfer(operation.kind) && operation.root != lost.rank) continue;
    const auto seen = seen_.try_emplace(lost.rank, Clock::now()).first->second;
    if (!is_missing(lost, operation, Clock::now() - std::max(seen, since))) continue;
    LostRank named = lost;
    if (named.name.empty()) named.name = roll_.names({lost.rank});
    return first_error_.set(PeerError(loss_sentence("[" + options_.backend + "]", named,
                                                    activity_in(operation, recorder_, names_))));
  }
}

// False if the operation may still end without the rank.
bool LossWatch::is_missing(const LostRank& lost, const CollectiveSignature& operation,
                           Clock::duration age) const {
  if (lost.fate == Fate::kDied) return age >= options_.for_dead;
  if (lost.fate == Fate::kUnknown) return age >= options_.for_unknown;
  const bool may_have_done_its_part = is_transfer(operation.kind);
  return (!may_have_done_its_part || age >= options_.for_unknown) &&
         roll_.left_before(lost.rank, operation);
}

}  // namespace ddp
