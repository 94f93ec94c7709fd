// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "ddp/nn/tensor.h"

namespace ddp::nn {

enum class PlateauMode : std::uint8_t { kMin, kMax };  // what is better: less or more
enum class PlateauThreshold : std::uint8_t { kRelative, kAbsolute };

struct ReduceLrOnPlateauOptions {
  double base = 0.1;  // the rate at first
  PlateauMode mode = PlateauMode::kMin;
  double factor = 0.1;
  int patience = 10;        // values in a row that may be no better; the next one lowers the rate
  double threshold = 1e-4;  // to be better a value must differ from the best by more
  PlateauThreshold threshold_mode = PlateauThreshold::kRelative;  // than that share of the best
  int cooldown = 0;  // values after a reduction that are not held against the next
  double minimum = 0;
  double epsilon = 1e-8;  // a reduction by no more than that is left out
};

// torch.optim.lr_scheduler.ReduceLROnPlateau: a learning rate that is multiplied by `factor` when
// a value, such as the loss of each epoch's validation, no longer gets better. Unlike the schedules
// of lr_schedule.h it remembers, so a checkpoint must hold its state. All ranks give it the same
// values, which those of a validation over all ranks are, and so have the same rate. NaN is never
// better.
class ReduceLrOnPlateau {
 public:
  // Throws std::invalid_argument unless the factor is in [0, 1), patience and cooldown are not
  // negative, nor are the other numbers, and all of them finite.
  explicit ReduceLrOnPlateau(const ReduceLrOnPlateauOptions& options);

  // The next value. True if the rate is lower now.
  bool step(double value);

  // For Optimizer::set_learning_rate.
  [[nodiscard]] double learning_rate() const { return rate_.buffer().as<double>()[0]; }

  // "learning_rate" and "best" (float64), "num_bad_epochs" and "cooldown_counter" (int64), on the
  // CPU. Views of the live state: written to, it goes on from there.
  [[nodiscard]] std::vector<NamedTensor> state() const;

 private:
  [[nodiscard]] bool is_better(double value) const;
  bool reduce();

  ReduceLrOnPlateauOptions options_;
  Tensor rate_;
  Tensor best_;
  Tensor bad_epochs_;
  Tensor cooldown_;
};

}  // namespace ddp::nn
