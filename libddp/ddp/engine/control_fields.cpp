// SPDX-License-Identifier: MIT
#include "ddp/engine/control_fields.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace ddp {
namespace {

constexpr int kMaxNamed = 4;  // ranks in an error, besides the first

struct Difference {
  int first;                // the lowest rank that counts
  std::vector<int> others;  // ranks that differ from it
};

// Compares a number of the ranks that count.
template <typename Counts, typename Number>
Difference find_difference(int world_size, const Counts& counts, const Number& number) {
  Difference found{.first = -1, .others = {}};
  for (int rank = 0; rank < world_size; ++rank) {
    if (!counts(rank)) continue;
    if (found.first < 0) found.first = rank;
    if (number(rank) != number(found.first)) found.others.push_back(rank);
  }
  return found;
}

// "rank 0 made 4, rank 2 made 3", where `describe` gives what follows the rank.
template <typename Describe>
std::string to_string(const Difference& difference, const Describe& describe) {
  const auto name = [&](int rank) { return "rank " + std::to_string(rank) + " " + describe(rank); };
  std::string text = name(difference.first);
  const std::size_t named = std::min<std::size_t>(difference.others.size(), kMaxNamed);
  for (std::size_t i = 0; i < named; ++i) text += ", " + name(difference.others[i]);
  const std::size_t left = difference.others.size() - named;
  return left == 0 ? text
                   : text + ", and " + std::to_string(left) +
                         (left == 1 ? " more rank differs" : " more ranks differ");
}

// Every rank makes a pass. Those without are missing in a simulated group, which has only one.
std::string find_pass_mismatch(const ControlFields& sums) {
  const Difference difference = find_difference(
      sums.world_size(), [&](int rank) { return sums.passes(rank) != 0; },
      [&](int rank) { return sums.passes(rank); });
  if (difference.others.empty()) return {};
  return "ranks differ in the backward passes of a step: " + to_string(difference, [&](int rank) {
           return "made " + std::to_string(sums.passes(rank));
         });
}

std::string find_epoch_mismatch(const ControlFields& sums) {
  const Difference difference = find_difference(
      sums.world_size(), [&](int rank) { return sums.is_active(rank); },
      [&](int rank) { return sums.epoch(rank); });
  if (difference.others.empty()) return {};
  return "ranks are in different epochs of their data, whose samples overlap: " +
         to_string(difference,
                   [&](int rank) { return "in epoch " + std::to_string(sums.epoch(rank)); }) +
         " (call set_epoch on all ranks or on none)";
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
  for (std::size_t slot = 0; slot < kMaxVotes; ++slot) numbers_[kVotes + slot] = state.votes[slot];
  for (std::size_t i = 0; i < kPieces; ++i) {
    const auto piece = static_cast<double>((state.fingerprint >> (16 * i)) & 0xffffU);
    numbers_[kFingerprint + 2 * i] = piece;
    numbers_[kFingerprint + 2 * i + 1] = piece * piece;
  }
  double* own = numbers_ + rank_index(rank);
  own[0] = state.times.work_seconds;
  own[1] = state.times.data_seconds;
  own[2] = state.times.is_idle ? 1 : 0;
  own[3] = state.is_active ? 1 : 0;
  own[4] = static_cast<double>(state.epoch);
  own[5] = static_cast<double>(passes);
  own[6] = static_cast<double>(state.gradient_fingerprint);
}

RankTimes ControlFields::times(int rank) const {
  const double* fields = numbers_ + rank_index(rank);
  return {fields[0], fields[1], fields[2] != 0};
}

// The variance is 0 if world_size * (sum of squares) == (sum) squared. Both are integers below 2^64
// as long as there are fewer than 2^16 ranks.
bool ControlFields::fingerprints_agree() const {
  const auto ranks = static_cast<std::uint64_t>(world_size_);
  for (std::size_t i = 0; i < kPieces; ++i) {
    const auto sum = static_cast<std::uint64_t>(numbers_[kFingerprint + 2 * i]);
    const auto squares = static_cast<std::uint64_t>(numbers_[kFingerprint + 2 * i + 1]);
    if (ranks * squares != sum * sum) return false;
  }
  return true;
}

std::size_t checked_vote(std::size_t slot) {
  if (slot < kMaxVotes) return slot;
  throw std::invalid_argument("[ddp] vote slot " + std::to_string(slot) + " is not below " +
                              std::to_string(kMaxVotes));
}

std::string find_mismatch(const ControlFields& sums) {
  std::string mismatch = find_pass_mismatch(sums);
  return mismatch.empty() ? find_epoch_mismatch(sums) : mismatch;
}

}  // namespace ddp
