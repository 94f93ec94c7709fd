// SPDX-License-Identifier: MIT
#include "ddp/engine/control_ledger.h"

#include <algorithm>

namespace ddp {

ControlLedger::ControlLedger(int world_size)
    : times_(static_cast<std::size_t>(world_size)),
      active_(times_.size(), 1),
      gradient_fingerprints_(times_.size()) {}

void ControlLedger::count(const ControlFields& sums) {
  count_pass(sums, kMaxMetrics);
  last_.stop_requests = sums.stop_requests();
  for (std::size_t slot = 0; slot < kMaxVotes; ++slot) last_.votes[slot] = sums.votes(slot);
  last_.active_ranks = 0;
  for (std::size_t i = 0; i < times_.size(); ++i) {
    const int rank = static_cast<int>(i);
    times_[i] = sums.times(rank);
    active_[i] = sums.is_active(rank) ? 1 : 0;
    gradient_fingerprints_[i] = sums.gradient_fingerprint(rank);
    last_.active_ranks += active_[i];
  }
  replicas_agree_ = fingerprints_agree(sums);
  count_emptiness();
}

// Touches only the metrics in use, since the kernels of a step leave none of this in the caches.
[[gnu::hot]] void ControlLedger::count_alone(const ControlFields& numbers, const RankState& own,
                                             std::size_t slots) {
  count_pass(numbers, slots);
  last_.active_ranks = own.is_active ? 1 : 0;
  last_.stop_requests = own.asks_to_stop ? 1 : 0;
  std::copy(own.votes.begin(), own.votes.end(), last_.votes.begin());
  active_[0] = own.is_active ? 1 : 0;
  count_emptiness();
}

void ControlLedger::count_emptiness() {
  const bool is_empty = last_.samples == 0 && last_.active_ranks == std::ssize(active_);
  steps_without_samples_ = is_empty ? steps_without_samples_ + 1 : 0;
}

void ControlLedger::count_pass(const ControlFields& sums, std::size_t slots) {
  ++steps_;
  last_.samples = sums.samples();
  totals_.samples += last_.samples;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    last_.metrics[slot] = sums.metric(slot);
    totals_.metrics[slot].sum += last_.metrics[slot].sum;
    totals_.metrics[slot].weight += last_.metrics[slot].weight;
  }
}

}  // namespace ddp
