// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <vector>

#include "ddp/kernels/sgd.h"
#include "ddp/nn/context.h"
#include "ddp/nn/optim/optimizer.h"
#include "ddp/nn/parameter.h"

namespace ddp::nn {

// torch.optim.SGD; the formula stands at sgd_step in ddp/kernels/sgd.h. The velocities of all
// parameters are one flat buffer.
class Sgd final : public Optimizer {
 public:
  // The parameters and the context outlive the optimizer. Throws std::invalid_argument unless all
  // parameters have one dtype.
  Sgd(Context& context, std::span<Parameter* const> parameters, const SgdStep& options);

  void step(const double* grad_scale) override;
  [[nodiscard]] double learning_rate() const override { return options_.learning_rate; }
  void set_learning_rate(double learning_rate) override { options_.learning_rate = learning_rate; }
  // "fc1.weight.velocity", ...; nothing if momentum is 0.
  [[nodiscard]] std::vector<NamedTensor> state() const override;

 private:
  struct Entry {
    Parameter* parameter;
    Buffer velocity;  // empty if momentum is 0
  };

  Context& context_;
  SgdStep options_;
  Tensor velocities_;
  std::vector<Entry> entries_;
};

}  // namespace ddp::nn
