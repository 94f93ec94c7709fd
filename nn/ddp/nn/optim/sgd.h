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

// Does what torch.optim.SGD does, without dampening; sgd_step in ddp/kernels/sgd.h gives the
// formula. The kernel is called once for each group.
class Sgd final : public Optimizer {
 public:
  Sgd(Context& context, std::span<Parameter* const> parameters, const SgdStep& options);
  Sgd(Context& context, std::vector<ParameterGroup<SgdStep>> groups);

  using Optimizer::step;
  void step(const double* grad_scale) override;
  // "fc1.weight.momentum_buffer", ..., but none in groups whose momentum is 0; "learning_rate".
  [[nodiscard]] std::vector<NamedTensor> state() const override;

 private:
  struct Group {
    explicit Group(ParameterGroup<SgdStep> group);

    std::vector<Parameter*> parameters;
    SgdStep options;             // with the first learning rate; at_its_rate() has the current one
    FlatState momentum_buffers;  // empty if momentum is 0
  };

  std::vector<Group> groups_;
  std::vector<SgdTensor> tensors_;  // one group's; a member only to keep its memory between steps
};

}  // namespace ddp::nn
