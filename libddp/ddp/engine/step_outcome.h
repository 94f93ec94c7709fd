// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/engine/control_vector.h"
#include "ddp/engine/statistics/step_summary.h"

namespace ddp {

// What all ranks answer alike about the step that ended last. An answer that needs the sums over
// ranks blocks the host on CUDA until they have arrived, and throws what is wrong with the step
// (see ControlVector).
class StepOutcome {
 public:
  // What a rank knows by itself about a step.
  struct Own {
    bool is_active = true;
    bool has_samples = true;
    bool is_finite = true;  // the reduced gradients; true if unchecked
  };

  StepOutcome(ControlVector& control, int world_size)
      : control_(control), world_size_(world_size) {}

  void end_step(const Own& own) { own_ = own; }

  [[nodiscard]] bool is_finite() const { return own_.is_finite; }
  // True if some rank had samples. A rank that had some knows it without the others' sums.
  [[nodiscard]] bool has_samples() { return own_.has_samples || summary().samples > 0; }
  // True if no rank had data any more. A rank that had data knows it without the others' sums.
  [[nodiscard]] bool is_over() { return !own_.is_active && summary().active_ranks == 0; }
  [[nodiscard]] bool stop_requested() { return summary().stop_requests > 0; }
  [[nodiscard]] bool agreed(std::size_t vote, Quorum quorum) {
    const int wanted = quorum == Quorum::kAny ? 1 : world_size_;
    return summary().votes[checked_vote(vote)] >= wanted;
  }
  [[nodiscard]] const StepSummary& summary() { return control_.complete_ledger().last(); }
  // The sum over all steps since the last call.
  [[nodiscard]] StepSummary take_totals() { return control_.complete_ledger().take_totals(); }

 private:
  ControlVector& control_;
  int world_size_;
  Own own_{.has_samples = false};  // before the first step
};

}  // namespace ddp
