// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/nn/module.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

// y = x weight' + bias; weight is out x in. PyTorch's default initialisation: both are drawn from
// U(-1/sqrt(in), 1/sqrt(in)), which for the weight is kaiming_uniform(a = sqrt(5)).
class Linear final : public Module {
 public:
  Linear(const Scope& scope, std::size_t in, std::size_t out);
  // The weight is drawn from the normal distribution instead, and the bias is 0.
  Linear(const Scope& scope, std::size_t in, std::size_t out, double stddev);

  // input: ... x in.
  Variable forward(Tape& tape, const Variable& input) override;

 private:
  Parameter weight_;
  Parameter bias_;
};

}  // namespace ddp::nn
