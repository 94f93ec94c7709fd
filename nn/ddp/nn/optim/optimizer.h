// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "ddp/nn/tensor.h"

namespace ddp::nn {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates every parameter that has a gradient, and takes the gradient: has_grad() is false
  // afterwards, so there is no zero_grad(). The gradient is first multiplied by *grad_scale, unless
  // that is null; on CUDA it points to device memory and is read when the kernels run.
  virtual void step(const double* grad_scale) = 0;

  [[nodiscard]] virtual double learning_rate() const = 0;
  virtual void set_learning_rate(double learning_rate) = 0;

  // What a checkpoint must hold beside the parameters: views of the live state.
  [[nodiscard]] virtual std::vector<NamedTensor> state() const = 0;
};

}  // namespace ddp::nn
