// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "ddp/nn/tensor.h"

namespace ddp::nn {

struct GradScalerOptions {
  double initial_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int growth_interval = 2000;  // steps in a row without an overflow
};

// The loss scale for float16, which keeps small gradients from vanishing. It is found by trial: as
// large as possible without overflow (Micikevicius et al. 2018; rule and defaults are those of
// torch.cuda.amp.GradScaler). This class only holds the factor: DistributedModule multiplies the
// loss by it, divides the gradients, and makes all ranks skip the same steps.
class GradScaler {
 public:
  // Throws std::invalid_argument unless factors and interval are positive, the scale is at least
  // 2^-14 and float32 can hold it, the growth factor is finite and above 1, and the backoff factor
  // below 1.
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(const GradScaler&) = delete;  // a copy would share the state
  GradScaler& operator=(const GradScaler&) = delete;

  [[nodiscard]] double scale() const;
  // Whether the scale is 2^-14. A step that overflows then has gradients that no scale makes
  // finite.
  [[nodiscard]] bool is_smallest() const;

  // Call it after each step. After an overflow the scale is multiplied by backoff_factor, but never
  // below 2^-14; after growth_interval steps in a row without one by growth_factor, unless the
  // result overflows float32.
  void update(bool has_overflowed);

  // "scale" (float64) and "growth_tracker" (int64: steps since the last change), on the CPU; a
  // checkpoint must hold them. They are views of the live state: writing to them restores the
  // scaler.
  [[nodiscard]] std::vector<NamedTensor> state() const;

 private:
  GradScalerOptions options_;
  Tensor scale_;
  Tensor growth_tracker_;
};

}  // namespace ddp::nn
