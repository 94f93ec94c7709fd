// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "support/two_layers.h"

namespace ddp::test {

// The training of Branches on one rank.
struct BranchesTrainee {
  BranchesTrainee(const std::shared_ptr<ProcessGroup>& group, DdpOptions options)
      : branches({context, DType::kFloat64, 0}),
        model(branches, context, group, std::move(options)),
        optimizer(context, branches.parameters(),
                  {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}),
        tape(context) {}

  // Runs backward on samples first .. first + n - 1. The features of the first one are scaled.
  void backward(std::size_t first, std::size_t n, bool is_active = true, double scale = 1) {
    std::vector<double> features;
    std::vector<std::int64_t> labels;
    for (std::size_t sample = first; sample < first + n; ++sample) {
      for (std::size_t i = 0; i < kFeatures; ++i) {
        features.push_back((sample == first ? scale : 1) * static_cast<double>(sample * 5 + i));
      }
      labels.push_back(static_cast<std::int64_t>(sample % kClasses));
    }
    const nn::Tensor input = context.from_host<double>(features, {n, kFeatures});
    const nn::Tensor label = context.from_host<std::int64_t>(labels, {n});
    const nn::Variable loss = nn::softmax_cross_entropy(tape, model.forward(tape, input), label);
    model.backward(tape, loss, {.samples = static_cast<double>(n), .is_active = is_active});
  }

  [[nodiscard]] std::vector<double> values() {
    std::vector<double> all;
    for (const nn::Parameter* parameter : branches.parameters()) {
      const std::vector<double> own = context.to_host<double>(parameter->value());
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  nn::Context context;
  Branches branches;
  nn::DistributedModule model;
  nn::Sgd optimizer;
  nn::Tape tape;
};

}  // namespace ddp::test
