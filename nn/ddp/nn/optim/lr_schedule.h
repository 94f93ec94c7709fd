// SPDX-License-Identifier: MIT
//
// Learning rates as pure functions of epoch and step, so that a resumed run needs no scheduler
// state.
#pragma once

#include <cstdint>
#include <string_view>

namespace ddp::nn {

enum class LrScheduleKind : std::uint8_t { kConstant, kStep, kCosine };

// "constant", "step" or "cosine".
[[nodiscard]] std::string_view to_string(LrScheduleKind kind);

struct LrSchedule {
  LrScheduleKind kind = LrScheduleKind::kConstant;
  double base = 0.1;
  std::int64_t epochs = 0;  // of the whole training, including the warm-up; kCosine needs them
  std::int64_t warmup_epochs = 0;  // at most `epochs`, if those are given
  std::int64_t step_epochs = 30;   // kStep: epochs between two drops
  double step_factor = 0.1;
  double minimum = 0;  // kCosine: the rate at the end
};

// Returns the rate of `epoch` (from 0). The warm-up rises evenly and reaches `base` in its last
// epoch. With t epochs since the warm-up and T of them in all:
//   warm-up: base * (epoch + 1) / warmup_epochs
//   step:    base * step_factor^floor(t / step_epochs)                          (PyTorch's StepLR)
//   cosine:  minimum + (base - minimum) * (1 + cos(pi * t / T)) / 2   (PyTorch's CosineAnnealingLR)
// An epoch is only the unit in which the schedule counts. For a rate that changes in each step,
// give `epochs`, `warmup_epochs` and `step_epochs` in steps, and the step as `epoch`.
// Throws std::invalid_argument for a negative epoch, a schedule that contradicts itself, a cosine
// without `epochs`, or a base,
// factor or minimum that is negative or not finite.
[[nodiscard]] double learning_rate(const LrSchedule& schedule, std::int64_t epoch);

// A warm-up by steps, to be multiplied by learning_rate() of the epoch: from `start_factor` it
// rises by the same amount in each step and is 1 from step `steps` on (PyTorch's LinearLR). With
// start_factor = 1 / k it is the gradual warm-up of Goyal et al. 2017 (section 2.2), who take k
// times the rate of one worker for k workers and rise to it in the first five epochs.
struct LinearWarmup {
  std::int64_t steps = 0;
  double start_factor = 0;
};

// Throws std::invalid_argument if `step` (from 0) or the number of steps is negative, or the start
// is not in [0, 1].
[[nodiscard]] double warmup_factor(const LinearWarmup& warmup, std::int64_t step);

// The linear scaling rule (Goyal et al. 2017, section 2.1; Krizhevsky 2014): if the batch of a
// step, over all ranks, is k times as large as the one for which `reference_rate` is right, the
// rate is multiplied by k. The rule is meant for SGD with a warm-up, and very large batches do not
// follow it. Throws std::invalid_argument unless both batches are positive.
[[nodiscard]] double scaled_learning_rate(double reference_rate, std::int64_t global_batch,
                                          std::int64_t reference_batch = 256);

}  // namespace ddp::nn
