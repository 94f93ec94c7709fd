// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ddp/kernels/adam.h"
#include "ddp/nn/context.h"
#include "ddp/nn/optim/flat_state.h"
#include "ddp/nn/optim/optimizer.h"

namespace ddp::nn {

// Does what torch.optim.Adam does, and with WeightDecay::kDecoupled what torch.optim.AdamW does;
// adam_step in ddp/kernels/adam.h gives the formula. The kernel is called once for each group. The
// bias correction of a parameter depends on how often this parameter has been stepped.
class Adam final : public Optimizer {
 public:
  Adam(Context& context, std::span<Parameter* const> parameters, const AdamStep& options);
  Adam(Context& context, std::vector<ParameterGroup<AdamStep>> groups);

  using Optimizer::step;
  void step(const double* grad_scale) override;
  // "fc1.weight.exp_avg", "fc1.weight.exp_avg_sq", "fc1.weight.step", ...; "learning_rate".
  [[nodiscard]] std::vector<NamedTensor> state() const override;

 private:
  struct Group {
    explicit Group(ParameterGroup<AdamStep> group);

    std::vector<Parameter*> parameters;
    AdamStep options;  // with the first learning rate; at_its_rate() has the current one
    FlatState exp_avgs;
    FlatState exp_avg_sqs;
    Tensor steps;  // int64 on the CPU, one element per parameter
  };

  std::vector<Group> groups_;
  std::vector<AdamTensor> tensors_;  // one group's; a member only to keep its memory between steps
};

}  // namespace ddp::nn
