// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/collectives/process_group.h"
#include "ddp/engine/ddp_options.h"
#include "ddp/engine/pass.h"

namespace ddp {

// n_ref: DdpOptions::nominal_samples or, if that is not set, 1.
[[nodiscard]] double reference_samples(const DdpOptions& options);

// The factor n / n_ref by which a rank weighs the mean gradient of its n samples. Summed over ranks
// and passes, and divided by (sum of n) / n_ref, gradients are then the mean over all samples. The
// caller multiplies its loss by the factor or, with DdpOptions::scale_at_ready, the engine the
// buckets. It is 1 for gradients that are sums, and for the only pass of a step in a world of one,
// whose mean needs no division.
class LossFactor {
 public:
  // Throws std::invalid_argument unless n_ref is positive and finite.
  LossFactor(const ProcessGroup& group, const DdpOptions& options);

  // The unit in which the control vector counts the samples that the gradients are divided by.
  [[nodiscard]] double unit() const { return is_sum_ ? 1 : reference_; }

  // Of a pass, which may be its whole step. Throws std::logic_error for a part of a step with
  // scale_at_ready.
  [[nodiscard]] PassFactors begin_pass(SampleCount samples, bool is_whole_step);

 private:
  void look_for_mistake(SampleCount samples, double factor, bool is_whole_step);

  bool is_alone_;
  bool is_sum_;
  bool scales_buckets_;
  bool is_nominal_;   // n_ref is nominal_samples
  double reference_;  // n_ref
  bool is_watchful_;  // on rank 0, until a warning was given or there is nothing to warn of
};

}  // namespace ddp
