// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ddp/collectives/group_names.h"
#include "ddp/engine/statistics/step_summary.h"

namespace ddp {

// What a rank tells the others about itself once per step, however many backward passes the step
// has.
struct RankState {
  bool is_active = true;
  std::int64_t epoch = 0;              // of the rank's data
  std::uint32_t plan_fingerprint = 0;  // likewise; 0: not known
  bool asks_to_stop = false;
  std::array<bool, kMaxVotes> votes = {};
  std::uint64_t fingerprint = 0;           // of the rank's replica; must be equal on all ranks
  std::uint64_t gradient_fingerprint = 0;  // see SameDataCheck
  RankTimes times = {};                    // of an earlier step
};

// Reads and writes the numbers of a control vector, which lie in the caller's memory. They are
// either the numbers of one rank or their sums over all ranks. All are float64:
//
//   vector := pass, state
//   pass   := samples / unit, samples, kMaxMetrics x (sum, weight)
//   state  := stop requests, votes[kMaxVotes], rank[world_size]
//   rank   := work seconds, data seconds, idle, out of data, epoch, fingerprint of the plan,
//             backward passes, fingerprint of the replica, fingerprint of gradients
//
// A rank writes its own entry of `rank` and leaves the others 0, so the sum holds the entries of
// all ranks. A fingerprint of 64 bits is two numbers, since a float64 holds only 53 exactly.
class ControlFields {
 public:
  ControlFields(double* numbers, int world_size) : numbers_(numbers), world_size_(world_size) {}

  // The number of elements in the vector, and in its `pass` part, which each backward pass adds to.
  [[nodiscard]] static constexpr std::size_t count(int world_size) {
    return rank_index(world_size);
  }
  static constexpr std::size_t kPassCount = 2 + 2 * kMaxMetrics;

  [[nodiscard]] static constexpr std::size_t sum_index(std::size_t slot) { return 2 + 2 * slot; }
  [[nodiscard]] static constexpr std::size_t weight_index(std::size_t slot) { return 3 + 2 * slot; }

  // Starts a backward pass: sets the two sample fields (see LossFactor::unit()) and zeroes the
  // metrics.
  void begin_pass(double samples, double unit);
  void add_metric(std::size_t slot, double value, double weight);
  void set_metric_weight(std::size_t slot, double weight) { numbers_[weight_index(slot)] = weight; }
  // Writes the state of this rank, whose step has had `passes` backward passes.
  void write_state(int rank, const RankState& state, int passes);

  [[nodiscard]] double samples() const { return numbers_[1]; }
  [[nodiscard]] StepSummary::Metric metric(std::size_t slot) const {
    return {numbers_[sum_index(slot)], numbers_[weight_index(slot)]};
  }
  [[nodiscard]] int stop_requests() const { return static_cast<int>(numbers_[kStops]); }
  [[nodiscard]] int votes(std::size_t slot) const {
    return static_cast<int>(numbers_[kVotes + slot]);
  }
  [[nodiscard]] int world_size() const { return world_size_; }
  // Of one rank:
  [[nodiscard]] RankTimes times(int rank) const;
  [[nodiscard]] bool is_active(int rank) const { return field(rank, kOutOfData) == 0; }
  [[nodiscard]] std::int64_t epoch(int rank) const {
    return static_cast<std::int64_t>(field(rank, kEpoch));
  }
  [[nodiscard]] std::uint32_t plan_fingerprint(int rank) const {
    return static_cast<std::uint32_t>(field(rank, kPlan));
  }
  [[nodiscard]] std::int64_t passes(int rank) const {
    return static_cast<std::int64_t>(field(rank, kPasses));
  }
  [[nodiscard]] std::uint64_t fingerprint(int rank) const;
  [[nodiscard]] std::uint64_t gradient_fingerprint(int rank) const;
  // False for the ranks that a simulated group lacks: every rank makes a pass.
  [[nodiscard]] bool exists(int rank) const { return passes(rank) != 0; }

 private:
  static constexpr std::size_t kStops = kPassCount;
  static constexpr std::size_t kVotes = kStops + 1;
  static constexpr std::size_t kRanks = kVotes + kMaxVotes;

  // The fields of `rank`.
  enum RankField : std::size_t {
    kWork,
    kData,
    kIdle,
    kOutOfData,
    kEpoch,
    kPlan,
    kPasses,
    kFingerprint,                             // two numbers
    kGradientFingerprint = kFingerprint + 2,  // two numbers
    kRankFields = kGradientFingerprint + 2
  };

  static constexpr std::size_t rank_index(int rank) {
    return kRanks + kRankFields * static_cast<std::size_t>(rank);
  }
  [[nodiscard]] double field(int rank, RankField which) const {
    return numbers_[rank_index(rank) + which];
  }

  double* numbers_;
  int world_size_;
};

// Returns the slot of a vote. Throws std::invalid_argument unless it is below kMaxVotes.
[[nodiscard]] std::size_t checked_vote(std::size_t slot);

// Describes what is wrong with a step: the ranks made different numbers of backward passes, or
// active ranks are in different epochs or have different plans. Empty if nothing is wrong. `sums`
// are sums over all ranks.
[[nodiscard]] std::string find_mismatch(const ControlFields& sums, const GroupNames& names);

// Whether all ranks have the same fingerprint of their replicas. `sums` are sums over all ranks.
[[nodiscard]] bool fingerprints_agree(const ControlFields& sums);

}  // namespace ddp
