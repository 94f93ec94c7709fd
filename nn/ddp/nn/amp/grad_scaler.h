// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "ddp/nn/tensor.h"

namespace ddp::nn {

struct GradScalerOptions {
  double initial_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int growth_interval = 2000;  // steps without an overflow
};

// The factor for a loss whose gradients are computed in float16, so that small ones do not vanish:
// as large as it can be without overflows, found by trying (Micikevicius et al. 2018; the rule and
// the defaults are those of torch.cuda.amp.GradScaler). It holds the factor alone:
// DistributedModule multiplies the loss by it, divides the gradients, and has the ranks skip the
// same steps.
class GradScaler {
 public:
  // Throws std::invalid_argument unless scale and interval are positive, the growth is more than 1
  // and the backoff less.
  explicit GradScaler(const GradScalerOptions& options = {});

  [[nodiscard]] double scale() const { return scale_.buffer().as<double>()[0]; }

  // To be called after each step. After an overflow the scale is multiplied by backoff_factor;
  // after growth_interval steps in a row without one by growth_factor, unless float32 cannot hold
  // that.
  void update(bool has_overflowed);

  // "scale" (float64) and "growth_tracker" (int64, steps since the last change), on the CPU: what a
  // checkpoint must hold. Views of the live state: written to, the scaler goes on from there.
  [[nodiscard]] std::vector<NamedTensor> state() const;

 private:
  GradScalerOptions options_;
  Tensor scale_;
  Tensor growth_tracker_;
};

}  // namespace ddp::nn
