// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/collectives/process_group.h"
#include "ddp/nn/context.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "options.h"
#include "task.h"
#include "training_state.h"

namespace train {

// Evaluates models on the task's test set. All arguments must outlive it.
class Evaluator {
 public:
  Evaluator(const Options& options, const Task& task, ddp::ProcessGroup& group,
            ddp::nn::Context& context);

  // Collective. Every sample counts once, and in the same batch, however many ranks there are. The
  // model must be in training mode, to which it returns.
  [[nodiscard]] Evaluation evaluate(ddp::nn::DistributedModule& model);

 private:
  [[nodiscard]] std::int64_t block() const;  // samples

  const Options& options_;
  const Task& task_;
  ddp::ProcessGroup& group_;
  ddp::nn::Context& context_;
};

}  // namespace train
