// SPDX-License-Identifier: MIT
//
// Learning rates as pure functions of the epoch, so that a resumed run needs no scheduler state.
#pragma once

#include <cstdint>
#include <string_view>

namespace ddp::nn {

enum class LrScheduleKind : std::uint8_t { kConstant, kStep, kCosine };

// "constant", "step" or "cosine"; std::invalid_argument that lists them for anything else.
[[nodiscard]] LrScheduleKind parse_lr_schedule(std::string_view name);

struct LrSchedule {
  LrScheduleKind kind = LrScheduleKind::kConstant;
  double base = 0.1;
  int epochs = 1;         // of the whole training, warm-up included
  int warmup_epochs = 0;  // 0 to epochs
  int step_epochs = 30;   // kStep: epochs between two drops
  double step_factor = 0.1;
  double minimum = 0;  // kCosine
};

// The rate of `epoch` (from 0). The warm-up rises evenly and reaches `base` in its last epoch:
// base * (epoch + 1) / warmup_epochs. Then, with t epochs since the warm-up and T of them in all:
//   step:   base * step_factor^floor(t / step_epochs)                          (PyTorch's StepLR)
//   cosine: minimum + (base - minimum) * (1 + cos(pi * t / T)) / 2    (PyTorch's CosineAnnealingLR)
// Throws std::invalid_argument for a negative epoch, or a schedule that contradicts itself.
[[nodiscard]] double learning_rate(const LrSchedule& schedule, int epoch);

}  // namespace ddp::nn
