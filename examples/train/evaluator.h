// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "ddp/collectives/process_group.h"
#include "ddp/data/batch.h"
#include "ddp/engine/signal_guard.h"
#include "ddp/nn/context.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "ddp/nn/tape.h"
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
  // model must be in training mode, to which it returns. Returns nothing, on all ranks, if a signal
  // has asked one of them to stop.
  [[nodiscard]] std::optional<Evaluation> evaluate(ddp::nn::DistributedModule& model,
                                                   const ddp::SignalGuard& signals);

 private:
  using Sums = std::array<double, ddp::kMaxMetrics>;  // indexed by slot

  [[nodiscard]] std::int64_t block() const;         // samples
  [[nodiscard]] std::int64_t most_batches() const;  // of a rank
  // Of this rank. Nothing if all ranks have left the evaluation.
  [[nodiscard]] std::optional<Sums> sum(ddp::nn::DistributedModule& model,
                                        const ddp::SignalGuard& signals);
  void add(const ddp::Batch& batch, ddp::nn::DistributedModule& model, ddp::nn::Tape& tape,
           Sums& sums) const;

  const Options& options_;
  const Task& task_;
  ddp::ProcessGroup& group_;
  ddp::nn::Context& context_;
};

}  // namespace train
