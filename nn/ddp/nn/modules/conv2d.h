// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/nn/module.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

// weight is out x in x kernel. PyTorch's default initialisation: weight and bias are drawn from
// U(-b, b) with b = 1/sqrt(in * kernel's pixels), which for the weight is
// kaiming_uniform(a = sqrt(5)).
class Conv2d final : public Module {
 public:
  Conv2d(const Scope& scope, std::size_t in_channels, std::size_t out_channels,
         const Size2d& kernel, const Conv2dOptions& options = {});

  // input: n x in x height x width.
  Variable forward(Tape& tape, const Variable& input) override;

 private:
  Conv2dOptions options_;
  Parameter weight_;
  Parameter bias_;
};

}  // namespace ddp::nn
