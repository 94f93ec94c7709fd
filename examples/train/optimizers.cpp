// SPDX-License-Identifier: MIT
#include "optimizers.h"

#include "ddp/nn/optim/adam.h"
#include "ddp/nn/optim/sgd.h"

namespace train {

std::string_view to_string(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kAdam:
      return "adam";
    case OptimizerKind::kAdamW:
      return "adamw";
    case OptimizerKind::kSgd:
      break;
  }
  return "sgd";
}

std::unique_ptr<ddp::nn::Optimizer> make_optimizer(
    const OptimizerOptions& options, ddp::nn::Context& context,
    std::span<ddp::nn::Parameter* const> parameters) {
  if (options.kind == OptimizerKind::kSgd) {
    return std::make_unique<ddp::nn::Sgd>(context, parameters,
                                          ddp::SgdStep{.learning_rate = options.learning_rate,
                                                       .momentum = options.momentum,
                                                       .weight_decay = options.weight_decay,
                                                       .nesterov = options.nesterov});
  }
  const auto decay =
      options.kind == OptimizerKind::kAdamW ? ddp::WeightDecay::kDecoupled : ddp::WeightDecay::kL2;
  return std::make_unique<ddp::nn::Adam>(context, parameters,
                                         ddp::AdamStep{.learning_rate = options.learning_rate,
                                                       .weight_decay = options.weight_decay,
                                                       .decay = decay});
}

}  // namespace train
