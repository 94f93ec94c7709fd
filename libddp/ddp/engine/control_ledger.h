// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ddp/engine/control_fields.h"
#include "ddp/engine/statistics/step_summary.h"

namespace ddp {

// What all ranks have told each other through control vectors: in the step that was counted last,
// and in total.
class ControlLedger {
 public:
  explicit ControlLedger(int world_size);

  // Counts a step whose control vectors have been added up over all ranks to `sums`.
  void count(const ControlFields& sums);
  // Counts a step in a world of one. `numbers` holds the pass with its first `slots` metrics; the
  // rest comes from `own`.
  void count_alone(const ControlFields& numbers, const RankState& own, std::size_t slots);

  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  // How many of the last steps in a row had no samples on any rank, though all ranks were active.
  [[nodiscard]] std::uint64_t steps_without_samples() const { return steps_without_samples_; }
  // The following describe the step that was counted last.
  [[nodiscard]] const StepSummary& last() const { return last_; }
  [[nodiscard]] bool is_active(int rank) const {
    return active_.at(static_cast<std::size_t>(rank)) != 0;
  }
  // By rank; zeros in a world of one.
  [[nodiscard]] std::span<const RankTimes> times() const { return times_; }
  // By rank; see SameDataCheck.
  [[nodiscard]] std::span<const std::uint64_t> gradient_fingerprints() const {
    return gradient_fingerprints_;
  }
  [[nodiscard]] bool replicas_agree() const { return replicas_agree_; }

  // The totals over all steps since the last call.
  [[nodiscard]] StepSummary take_totals() { return std::exchange(totals_, {}); }

 private:
  void count_pass(const ControlFields& sums, std::size_t slots);
  void count_emptiness();

  std::uint64_t steps_ = 0;
  std::uint64_t steps_without_samples_ = 0;
  StepSummary last_;
  StepSummary totals_;
  std::vector<RankTimes> times_;
  std::vector<std::uint8_t> active_;  // by rank
  std::vector<std::uint64_t> gradient_fingerprints_;
  bool replicas_agree_ = true;
};

}  // namespace ddp
