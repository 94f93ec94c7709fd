// SPDX-License-Identifier: MIT
#include "ddp/engine/loss_factor.h"

#include <fmt/core.h>

#include <cmath>
#include <stdexcept>

#include "ddp/base/log.h"

namespace ddp {

double reference_samples(const DdpOptions& options) {
  const double nominal = options.nominal_samples;
  return nominal == 0 ? 1 : nominal;
}

LossFactor::LossFactor(const ProcessGroup& group, const DdpOptions& options)
    : is_alone_(group.world_size() == 1),
      is_sum_(options.gradient_kind == GradientKind::kSum),
      scales_buckets_(options.scale_at_ready),
      is_nominal_(options.nominal_samples != 0),
      reference_(reference_samples(options)),
      is_watchful_(group.rank() == 0 && !is_sum_ && !scales_buckets_) {
  if (!(reference_ > 0 && std::isfinite(reference_))) {
    throw std::invalid_argument("[ddp] nominal_samples must be positive and finite");
  }
}

[[gnu::hot]] PassFactors LossFactor::begin_pass(SampleCount samples, bool is_whole_step) {
  if (scales_buckets_ && !is_whole_step) {
    throw std::logic_error("[ddp] scale_at_ready does not work with accumulation");
  }
  const bool divides = !is_alone_ || !is_whole_step || is_sum_;
  const double factor = is_sum_ || !divides ? 1 : samples / reference_;
  if (scales_buckets_) return {.buckets = factor, .divides = divides};
  if (is_watchful_ && divides) look_for_mistake(samples, factor, is_whole_step);
  return {.loss = factor, .divides = divides};
}

// These are only warnings: the engine cannot see whether the caller multiplies the loss by the
// factor, and batches of one sample may be right.
void LossFactor::look_for_mistake(SampleCount samples, double factor, bool is_whole_step) {
  if (!is_nominal_ && factor <= 1) return;  // later steps may have more samples
  is_watchful_ = false;
  if (!is_nominal_) {
    logging::warning(
        fmt::format("[ddp] a step has {0} samples and DdpOptions::nominal_samples is not set: "
                    "gradients are {0} times too small unless the mean loss is multiplied by what "
                    "begin_step() returned; with nominal_samples = {0}, begin_step() returns 1",
                    factor));
  } else if (is_whole_step && reference_ > 1 && !samples.is_given()) {
    logging::warning(fmt::format(
        "[ddp] StepOptions::samples is not set, so the first step counts as 1 sample, "
        "but DdpOptions::nominal_samples is {0}: unless that is right, or the mean loss "
        "is multiplied by what begin_step() returned, gradients are {0} times too "
        "large; tell begin_step() the number of samples",
        reference_));
  }
}

}  // namespace ddp
