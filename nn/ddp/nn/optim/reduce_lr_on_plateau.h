// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "ddp/nn/tensor.h"

namespace ddp::nn {

enum class PlateauMode : std::uint8_t { kMin, kMax };  // smaller or larger values are better
enum class PlateauThreshold : std::uint8_t { kRelative, kAbsolute };

struct ReduceLrOnPlateauOptions {
  double base = 0.1;  // the initial rate
  PlateauMode mode = PlateauMode::kMin;
  double factor = 0.1;
  int patience = 10;        // consecutive bad values; one more lowers the rate
  double threshold = 1e-4;  // a better value beats the best by more than this
  PlateauThreshold threshold_mode = PlateauThreshold::kRelative;  // relative to the best value
  int cooldown = 0;  // values after a reduction that do not count as bad
  double minimum = 0;
  double eps = 1e-8;  // a reduction that is not larger than this is not made
};

// torch.optim.lr_scheduler.ReduceLROnPlateau: a learning rate that is multiplied by `factor` when a
// value, such as the loss of each epoch's validation, no longer gets better. Unlike the schedules
// of lr_schedule.h it has a state, which checkpoints must contain. All ranks must pass the same
// values, such as those of a validation over all ranks, to get the same rate. NaN is never better.
class ReduceLrOnPlateau {
 public:
  // Throws std::invalid_argument unless the factor is in [0, 1), all numbers are finite, and none
  // is negative.
  explicit ReduceLrOnPlateau(const ReduceLrOnPlateauOptions& options);
  ReduceLrOnPlateau(const ReduceLrOnPlateau&) = delete;  // a copy would share the state
  ReduceLrOnPlateau& operator=(const ReduceLrOnPlateau&) = delete;

  // Takes the next value. Returns true if this lowered the rate.
  bool step(double value);

  // The rate to pass to Optimizer::set_learning_rate.
  [[nodiscard]] double learning_rate() const { return rate_.buffer().as<double>()[0]; }

  // "learning_rate" and "best" (float64), "num_bad_epochs" and "cooldown_counter" (int64), on the
  // CPU. Views of the live state: after they are overwritten, the schedule continues from the new
  // values.
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
