// SPDX-License-Identifier: MIT
#include "ddp/engine/control_fields.h"

#include <fmt/core.h>

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
Difference find_difference(const ControlFields& sums, const Counts& counts, const Number& number) {
  Difference found{.first = -1, .others = {}};
  for (int rank = 0; rank < sums.world_size(); ++rank) {
    if (!sums.exists(rank) || !counts(rank)) continue;
    if (found.first < 0) found.first = rank;
    if (number(rank) != number(found.first)) found.others.push_back(rank);
  }
  return found;
}

// "rank 0 made 4, rank 2 made 3", where `describe` gives what follows the rank.
template <typename Describe>
std::string to_string(const Difference& difference, const GroupNames& names,
                      const Describe& describe) {
  const auto name = [&](int rank) { return names.rank(rank) + " " + describe(rank); };
  std::string text = name(difference.first);
  const std::size_t named = std::min<std::size_t>(difference.others.size(), kMaxNamed);
  for (std::size_t i = 0; i < named; ++i) text += ", " + name(difference.others[i]);
  const std::size_t left = difference.others.size() - named;
  return left == 0 ? text
                   : text + ", and " + std::to_string(left) +
                         (left == 1 ? " more rank differs" : " more ranks differ");
}

constexpr auto kAllRanks = [](int) { return true; };

std::string find_pass_mismatch(const ControlFields& sums, const GroupNames& names) {
  const Difference difference =
      find_difference(sums, kAllRanks, [&](int rank) { return sums.passes(rank); });
  if (difference.others.empty()) return {};
  return "ranks differ in the backward passes of a step: " +
         to_string(difference, names,
                   [&](int rank) { return "made " + std::to_string(sums.passes(rank)); });
}

std::string find_epoch_mismatch(const ControlFields& sums, const GroupNames& names) {
  const Difference difference = find_difference(
      sums, [&](int rank) { return sums.is_active(rank); },
      [&](int rank) { return sums.epoch(rank); });
  if (difference.others.empty()) return {};
  return "ranks are in different epochs of their data, whose samples overlap: " +
         to_string(difference, names,
                   [&](int rank) { return "in epoch " + std::to_string(sums.epoch(rank)); }) +
         " (call set_epoch on all ranks or on none, and let no rank leave an epoch early)";
}

// A sampler sees only its own rank's options, so the advice names all that may differ.
std::string find_plan_mismatch(const ControlFields& sums, const GroupNames& names) {
  const Difference difference = find_difference(
      sums, [&](int rank) { return sums.is_active(rank) && sums.plan_fingerprint(rank) != 0; },
      [&](int rank) { return sums.plan_fingerprint(rank); });
  if (difference.others.empty()) return {};
  return "ranks read their data in different orders, so that some samples are read twice and "
         "others not at all: " +
         to_string(difference, names,
                   [&](int rank) {
                     return fmt::format("has order {:08x}", sums.plan_fingerprint(rank));
                   }) +
         " (give the samplers of all ranks one dataset, of one size, one seed, one batch size, and "
         "each its own rank)";
}

void write_halves(std::uint64_t fingerprint, double* numbers) {
  numbers[0] = static_cast<double>(fingerprint >> 32);
  numbers[1] = static_cast<double>(fingerprint & 0xffffffffU);
}

std::uint64_t read_halves(const double* numbers) {
  return (static_cast<std::uint64_t>(numbers[0]) << 32) | static_cast<std::uint64_t>(numbers[1]);
}

}  // namespace

[[gnu::hot]] void ControlFields::begin_pass(double samples, double unit) {
  std::fill_n(numbers_, kPassCount, 0.0);
  numbers_[0] = samples / unit;
  numbers_[1] = samples;
}

void ControlFields::add_metric(std::size_t slot, double value, double weight) {
  numbers_[sum_index(slot)] += value * weight;
  numbers_[weight_index(slot)] += weight;
}

void ControlFields::write_state(int rank, const RankState& state, int passes) {
  std::fill(numbers_ + kPassCount, numbers_ + count(world_size_), 0.0);
  numbers_[kStops] = state.asks_to_stop ? 1 : 0;
  for (std::size_t slot = 0; slot < kMaxVotes; ++slot) numbers_[kVotes + slot] = state.votes[slot];
  double* own = numbers_ + rank_index(rank);
  own[kWork] = state.times.work_seconds;
  own[kData] = state.times.data_seconds;
  own[kIdle] = state.times.is_idle ? 1 : 0;
  own[kOutOfData] = state.is_active ? 0 : 1;
  own[kEpoch] = static_cast<double>(state.epoch);
  own[kPlan] = state.plan_fingerprint;
  own[kPasses] = static_cast<double>(passes);
  write_halves(state.fingerprint, own + kFingerprint);
  write_halves(state.gradient_fingerprint, own + kGradientFingerprint);
}

RankTimes ControlFields::times(int rank) const {
  return {field(rank, kWork), field(rank, kData), field(rank, kIdle) != 0};
}

std::uint64_t ControlFields::fingerprint(int rank) const {
  return read_halves(numbers_ + rank_index(rank) + kFingerprint);
}

std::uint64_t ControlFields::gradient_fingerprint(int rank) const {
  return read_halves(numbers_ + rank_index(rank) + kGradientFingerprint);
}

std::size_t checked_vote(std::size_t slot) {
  if (slot < kMaxVotes) return slot;
  throw std::invalid_argument("[ddp] vote slot " + std::to_string(slot) + " is not below " +
                              std::to_string(kMaxVotes));
}

std::string find_mismatch(const ControlFields& sums, const GroupNames& names) {
  std::string mismatch = find_pass_mismatch(sums, names);
  if (mismatch.empty()) mismatch = find_epoch_mismatch(sums, names);
  return mismatch.empty() ? find_plan_mismatch(sums, names) : mismatch;
}

bool fingerprints_agree(const ControlFields& sums) {
  return find_difference(sums, kAllRanks, [&](int rank) { return sums.fingerprint(rank); })
      .others.empty();
}

}  // namespace ddp
