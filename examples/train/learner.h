// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/named_buffer.h"
#include "ddp/data/data_loader.h"
#include "ddp/nn/amp/grad_scaler.h"
#include "ddp/nn/optim/optimizer.h"
#include "ddp/nn/optim/reduce_lr_on_plateau.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "options.h"
#include "task.h"

namespace train {

// What learns: the model of a rank, and all that changes it.
class Learner {
 public:
  // Collective: rank 0's weights are sent to all. The options and the task must outlive it.
  Learner(const Options& options, const Task& task, std::shared_ptr<ddp::ProcessGroup> group);

  // What --init has loaded, if that may be a part of the model; otherwise empty.
  [[nodiscard]] const std::string& init_remark() const { return init_remark_; }

  // The loss of a batch, and sums for the step's slots (objective.h).
  struct Pass {
    ddp::nn::Variable loss;
    std::vector<ddp::nn::StepMetric> metrics;
  };
  [[nodiscard]] Pass forward(const ddp::Batch& batch);
  void backward(const Pass& pass, const ddp::StepOptions& step) {
    model_.backward(tape_, pass.loss, step, pass.metrics);
  }
  // Steps number `steps_done`, after the last pass of a step.
  void step_optimizer(int epoch, std::int64_t steps_done);

  // To be told the test loss after each epoch. The learning rate from here on, if that lowers it.
  [[nodiscard]] std::optional<double> step_plateau(double loss);

  // The learning rate of the last step.
  [[nodiscard]] double learning_rate() const { return optimizer_->learning_rate(); }
  // Views of all tensors that a checkpoint holds; they live as long as this object.
  [[nodiscard]] std::vector<ddp::NamedBuffer> checkpoint_tensors() const;

  [[nodiscard]] ddp::nn::DistributedModule& model() { return model_; }
  [[nodiscard]] const ddp::nn::DistributedModule& model() const { return model_; }
  [[nodiscard]] ddp::nn::Context& context() { return context_; }

 private:
  const Options& options_;
  const Task& task_;
  ddp::nn::Context context_;
  std::unique_ptr<ddp::nn::Module> module_;
  std::string init_remark_;  // before model_, which sends the loaded weights to all ranks
  ddp::nn::DistributedModule model_;
  std::unique_ptr<ddp::nn::Optimizer> optimizer_;
  std::optional<ddp::nn::GradScaler> scaler_;  // with float16
  std::optional<ddp::nn::ReduceLrOnPlateau> plateau_;
  ddp::nn::Tape tape_;
};

}  // namespace train
