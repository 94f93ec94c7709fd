// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ddp/kernels/sgd.h"
#include "ddp/nn/context.h"
#include "ddp/nn/optim/flat_state.h"
#include "ddp/nn/optim/optimizer.h"

namespace ddp::nn {

// torch.optim.SGD, without dampening; the formula stands at sgd_step in ddp/kernels/sgd.h. A group
// is one call of the kernel.
class Sgd final : public Optimizer {
 public:
  // The parameters and the context outlive the optimizer. Throws std::invalid_argument unless all
  // parameters of a group have one dtype.
  Sgd(Context& context, std::span<Parameter* const> parameters, const SgdStep& options);
  Sgd(Context& context, std::vector<ParameterGroup<SgdStep>> groups);

  using Optimizer::step;
  void step(const double* grad_scale) override;
  [[nodiscard]] double learning_rate() const override;
  void set_learning_rate(double learning_rate) override;
  void set_group_learning_rate(std::size_t group, double learning_rate) override;
  // "fc1.weight.momentum_buffer", ...; nothing of groups whose momentum is 0.
  [[nodiscard]] std::vector<NamedTensor> state() const override;

 private:
  struct Group {
    explicit Group(ParameterGroup<SgdStep> group);

    std::vector<Parameter*> parameters;
    SgdStep options;
    FlatState momentum_buffers;  // of no parameter if momentum is 0
  };

  Context& context_;
  std::vector<Group> groups_;
  std::vector<SgdTensor> tensors_;  // of the group at hand, kept for its memory
};

}  // namespace ddp::nn
