// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ddp/nn/parameter.h"
#include "ddp/nn/tensor.h"

namespace ddp::nn {

// Parameters that are stepped with options of their own, as in PyTorch's param_groups.
template <class Options>
struct ParameterGroup {
  std::vector<Parameter*> parameters;
  Options options;
};

// Each parameter belongs to one group, once; std::invalid_argument that names one which does not.
class Optimizer {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  // Updates every parameter that has a gradient, and takes the gradient: has_grad() is false
  // afterwards, so there is no zero_grad(). Gradients that a DistributedModule reduces become
  // those of the mean over all ranks first, and are dropped where it says so: DistributedModule's
  // step() has the details. std::logic_error if some of the parameters are of another module.
  void step();

  // The same with gradients multiplied by *grad_scale, and nothing else made of them; null is 1. On
  // CUDA it points to device memory and is read when the kernels run.
  virtual void step(const double* grad_scale) = 0;

  // Of all parameter groups.
  [[nodiscard]] std::span<Parameter* const> parameters() const { return parameters_; }

  // Of all parameter groups; learning_rate() tells the first one's.
  [[nodiscard]] virtual double learning_rate() const = 0;
  virtual void set_learning_rate(double learning_rate) = 0;
  // Sets the rate of one group, counted from 0. Throws std::out_of_range if there is no such group.
  virtual void set_group_learning_rate(std::size_t group, double learning_rate) = 0;

  // What a checkpoint must hold beside the parameters: views of the live state, named after the
  // parameters, in their order. After they are overwritten, the optimizer continues from the new
  // values. Counts are int64 on the CPU, whatever the parameters' device.
  [[nodiscard]] virtual std::vector<NamedTensor> state() const = 0;

 protected:
  template <class Options>
  explicit Optimizer(const std::vector<ParameterGroup<Options>>& groups) {
    for (const ParameterGroup<Options>& group : groups) {
      parameters_.insert(parameters_.end(), group.parameters.begin(), group.parameters.end());
    }
    check_each_is_once();
  }

 private:
  void check_each_is_once() const;

  std::vector<Parameter*> parameters_;
};

// For models whose biases and norms shall not decay: parameters of at most one dimension, which
// those are, and the others. Both in the order given.
struct DecaySplit {
  std::vector<Parameter*> decayed;
  std::vector<Parameter*> not_decayed;
};
[[nodiscard]] DecaySplit split_by_decay(std::span<Parameter* const> parameters);

}  // namespace ddp::nn
