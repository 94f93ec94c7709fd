// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <vector>

#include "ddp/nn/parameter.h"
#include "ddp/nn/tensor.h"

namespace ddp::nn {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates every parameter that has a gradient, and takes the gradient: has_grad() is false
  // afterwards, so there is no zero_grad(). The gradient is first multiplied by *grad_scale, unless
  // that is null; on CUDA it points to device memory and is read when the kernels run.
  virtual void step(const double* grad_scale) = 0;

  // Of all parameter groups; learning_rate() tells the first one's.
  [[nodiscard]] virtual double learning_rate() const = 0;
  virtual void set_learning_rate(double learning_rate) = 0;

  // What a checkpoint must hold beside the parameters: views of the live state, named after the
  // parameters, in their order. Written to, the optimizer goes on from there. Counts are int64 on
  // the CPU, whatever the parameters' device.
  [[nodiscard]] virtual std::vector<NamedTensor> state() const = 0;
};

// Parameters that are stepped with options of their own, as in PyTorch's param_groups.
template <class Options>
struct ParameterGroup {
  std::vector<Parameter*> parameters;
  Options options;
};

// For models whose biases and norms shall not decay: parameters of at most one dimension, which
// those are, and the others. Both in the order given.
struct DecaySplit {
  std::vector<Parameter*> decayed;
  std::vector<Parameter*> not_decayed;
};
[[nodiscard]] DecaySplit split_by_decay(std::span<Parameter* const> parameters);

}  // namespace ddp::nn
