// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "ddp/nn/context.h"
#include "ddp/nn/optim/optimizer.h"

namespace train {

enum class OptimizerKind { kSgd, kAdam, kAdamW };

[[nodiscard]] std::string_view to_string(OptimizerKind kind);

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  double learning_rate = 0.05;
  double momentum = 0.9;  // used by SGD only
  bool nesterov = false;  // used by SGD only
  double weight_decay = 0;
};

[[nodiscard]] std::unique_ptr<ddp::nn::Optimizer> make_optimizer(
    const OptimizerOptions& options, ddp::nn::Context& context,
    std::span<ddp::nn::Parameter* const> parameters);

}  // namespace train
