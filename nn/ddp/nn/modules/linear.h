// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "ddp/nn/module.h"
#include "ddp/nn/modules/bias.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

struct LinearOptions {
  Bias bias = Bias::kYes;
  // If set, the weight is drawn from the normal distribution with mean 0, and the bias is 0. Finite
  // and 0 or above, else std::invalid_argument.
  std::optional<double> stddev = {};
};

// y = x weight' + bias; weight is out x in. PyTorch's default initialisation: both are drawn from
// U(-1/sqrt(in), 1/sqrt(in)), which for the weight is kaiming_uniform(a = sqrt(5)).
class Linear final : public Module {
 public:
  Linear(const Scope& scope, std::size_t in, std::size_t out, const LinearOptions& options = {});

  // input: ... x in.
  Variable forward(Tape& tape, const Variable& input) override;

 private:
  Parameter weight_;
  std::unique_ptr<Parameter> bias_;  // null if there is none
};

}  // namespace ddp::nn
