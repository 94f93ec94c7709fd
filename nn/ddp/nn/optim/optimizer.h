// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ddp/nn/context.h"
#include "ddp/nn/parameter.h"
#include "ddp/nn/tensor.h"

namespace ddp::nn {

// Parameters that are stepped with options of their own, as in PyTorch's param_groups; but there is
// no optimizer whose options a group could inherit, so all of them count, with their defaults.
template <class Options>
struct ParameterGroup {
  std::vector<Parameter*> parameters;
  Options options;
};

// Base of all optimizers. They are made only of valid arguments, else std::invalid_argument, which
// names the parameter: there is at least one; each is on the context's device, in exactly one group
// and only once; those of a group have one dtype, float32 or float64; a learning rate is 0 or
// above, and the other options are as check_options() of their kernel demands. The context and the
// parameters must outlive the optimizer.
class Optimizer {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  // Updates every parameter that has a gradient, and removes the gradient: has_grad() is false
  // afterwards, so there is no zero_grad(). If a DistributedModule reduces the gradients, they are
  // first replaced by their mean over all ranks, or dropped without an update in the cases that
  // DistributedModule's step() describes. Throws std::logic_error if some of the parameters belong
  // to another module.
  void step();

  // Updates with the gradients as they are, each multiplied by *grad_scale (1 if null). On CUDA,
  // grad_scale points to device memory and is read when the kernels run. Throws std::logic_error if
  // it is null and a DistributedModule's gradients need their scale: see there.
  virtual void step(const double* grad_scale) = 0;

  // The parameters of all groups.
  [[nodiscard]] std::span<Parameter* const> parameters() const { return parameters_; }

  // The setter changes the rate of all groups; the getter returns the first group's.
  [[nodiscard]] double learning_rate() const;
  void set_learning_rate(double learning_rate);
  // The rate of one group, counted from 0. Throws std::out_of_range if there is no such group.
  [[nodiscard]] double group_learning_rate(std::size_t group) const;
  void set_group_learning_rate(std::size_t group, double learning_rate);
  [[nodiscard]] std::size_t group_count() const { return rates().size(); }

  // What a checkpoint must contain besides the parameters: views of the live state, named after the
  // parameters and in their order, and last the groups' learning rates, "learning_rate". After they
  // are overwritten, the optimizer continues from the new values. Counts (int64) and rates
  // (float64) are on the CPU, whatever the parameters' device is.
  [[nodiscard]] virtual std::vector<NamedTensor> state() const = 0;

 protected:
  template <class Options>
  Optimizer(Context& context, const std::vector<ParameterGroup<Options>>& groups)
      : context_(context), learning_rates_(rates_of(groups)) {
    for (const ParameterGroup<Options>& group : groups) {
      check_options(group.options);
      check_group(group.parameters);
      parameters_.insert(parameters_.end(), group.parameters.begin(), group.parameters.end());
    }
    check_parameters();
  }

  [[nodiscard]] Context& context() const { return context_; }

  // The options of a group, with the learning rate that it has now.
  template <class Options>
  [[nodiscard]] Options at_its_rate(Options options, std::size_t group) const {
    options.learning_rate = rates()[group];
    return options;
  }
  // For step().
  void check_scale(const double* grad_scale) const;
  // For state().
  [[nodiscard]] NamedTensor learning_rates() const { return {"learning_rate", learning_rates_}; }

 private:
  template <class Options>
  static Tensor rates_of(const std::vector<ParameterGroup<Options>>& groups) {
    const Tensor rates = Tensor::zeros({groups.size()}, DType::kFloat64);
    double* next = rates.buffer().as<double>().data();
    for (const ParameterGroup<Options>& group : groups) {
      *next++ = checked_rate(group.options.learning_rate);
    }
    return rates;
  }
  [[nodiscard]] std::span<double> rates() const { return learning_rates_.buffer().as<double>(); }
  [[nodiscard]] static double checked_rate(double learning_rate);
  [[nodiscard]] double& rate_of(std::size_t group) const;
  void check_group(std::span<Parameter* const> parameters) const;
  void check_parameters() const;

  Context& context_;
  std::vector<Parameter*> parameters_;
  Tensor learning_rates_;  // float64 on the CPU, by group
};

// Splits parameters for models whose biases and normalisations must not decay: these have at most
// one dimension. Both lists keep the given order. std::invalid_argument if one is a null pointer.
struct DecaySplit {
  std::vector<Parameter*> decayed;
  std::vector<Parameter*> not_decayed;
};
[[nodiscard]] DecaySplit split_by_decay(std::span<Parameter* const> parameters);

}  // namespace ddp::nn
