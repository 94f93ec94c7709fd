// SPDX-License-Identifier: MIT
#include "ddp/engine/control_fields.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace ddp {
namespace {

std::string describe_epoch(const ControlFields& sums, int rank) {
  return "rank " + std::to_string(rank) + " in epoch " + std::to_string(sums.epoch(rank));
}

std::string find_epoch_mismatch(const ControlFields& sums) {
  std::optional<int> first;  // the lowest active rank
  std::string others;        // active ranks whose epoch differs from that of `first`
  for (int rank = 0; rank < sums.world_size(); ++rank) {
    if (!sums.is_active(rank)) continue;
    if (!first) first = rank;
    if (sums.epoch(rank) != sums.epoch(*first)) others += ", " + describe_epoch(sums, rank);
  }
  if (others.empty()) return {};
  return "ranks are in different epochs of their data, whose samples overlap: " +
         describe_epoch(sums, *first) + others + " (call set_epoch on all ranks or on none)";
}

}  // namespace

// In a world of one, the numbers behind the pass are either written again before they are read or
// never read, so they need not be zeroed.
void ControlFields::begin_pass(double samples, double nominal_samples) {
  std::fill_n(numbers_, world_size_ == 1 ? kPassCount : count(world_size_), 0.0);
  numbers_[0] = samples / nominal_samples;
  numbers_[1] = samples;
}

void ControlFields::add_metric(std::size_t slot, double value, double weight) {
  numbers_[sum_index(slot)] += value * weight;
  numbers_[weight_index(slot)] += weight;
}

void ControlFields::write_state(int rank, const RankState& state, int passes) {
  numbers_[kActive] = state.is_active ? 1 : 0;
  numbers_[kStops] = state.asks_to_stop ? 1 : 0;
  write_with_square(kPasses, passes);
  for (std::size_t slot = 0; slot < kMaxVotes; ++slot) numbers_[kVotes + slot] = state.votes[slot];
  for (std::size_t i = 0; i < kPieces; ++i) {
    const auto piece = static_cast<double>((state.fingerprint >> (16 * i)) & 0xffffU);
    write_with_square(kFingerprint + 2 * i, piece);
  }
  double* own = numbers_ + rank_index(rank);
  own[0] = state.times.work_seconds;
  own[1] = state.times.data_seconds;
  own[2] = state.times.is_idle ? 1 : 0;
  own[3] = state.is_active ? 1 : 0;
  own[4] = static_cast<double>(state.epoch);
}

RankTimes ControlFields::times(int rank) const {
  const double* fields = numbers_ + rank_index(rank);
  return {fields[0], fields[1], fields[2] != 0};
}

bool ControlFields::fingerprints_agree() const {
  for (std::size_t i = 0; i < kPieces; ++i) {
    if (!agree(kFingerprint + 2 * i)) return false;
  }
  return true;
}

void ControlFields::write_with_square(std::size_t index, double number) {
  numbers_[index] = number;
  numbers_[index + 1] = number * number;
}

// The variance is 0 if world_size * (sum of squares) == (sum) squared. Both are integers below 2^64
// as long as there are fewer than 2^16 ranks.
bool ControlFields::agree(std::size_t index) const {
  const auto ranks = static_cast<std::uint64_t>(world_size_);
  const auto sum = static_cast<std::uint64_t>(numbers_[index]);
  return ranks * static_cast<std::uint64_t>(numbers_[index + 1]) == sum * sum;
}

std::size_t checked_vote(std::size_t slot) {
  if (slot < kMaxVotes) return slot;
  throw std::invalid_argument("[ddp] vote slot " + std::to_string(slot) + " is not below " +
                              std::to_string(kMaxVotes));
}

std::string find_mismatch(const ControlFields& sums, int rank, int own_passes) {
  if (sums.passes_agree()) return find_epoch_mismatch(sums);
  return "ranks differ in the backward passes of a step: rank " + std::to_string(rank) + " made " +
         std::to_string(own_passes) + ", all " + std::to_string(sums.world_size()) +
         " ranks together made " + std::to_string(sums.passes());
}

}  // namespace ddp
