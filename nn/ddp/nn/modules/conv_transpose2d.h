// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/nn/module.h"
#include "ddp/nn/modules/conv_parameters.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {

// weight is in x out / groups x kernel. PyTorch's default initialisation.
class ConvTranspose2d final : public Module {
 public:
  ConvTranspose2d(const Scope& scope, std::size_t in_channels, std::size_t out_channels,
                  const Size2d& kernel, const ConvTranspose2dOptions& options = {},
                  Bias bias = Bias::kYes);

  // input: n x in x height x width.
  Variable forward(Tape& tape, const Variable& input) override;

 private:
  ConvTranspose2dOptions options_;
  ConvParameters parameters_;
};

}  // namespace ddp::nn
