// SPDX-License-Identifier: MIT
#include "learner.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "ddp/nn/named_buffers.h"
#include "ddp/nn/parallel/sync_batch_norm.h"
#include "factories.h"
#include "model_tensors.h"
#include "optimizers.h"

namespace train {

Learner::Learner(const Options& options, const Task& task, std::shared_ptr<ddp::ProcessGroup> group)
    : options_(options),
      task_(task),
      context_(group->device(), options.float32_precision),
      module_(make_module(options, context_, task)),
      init_remark_(load_initial_weights(options, *group, context_, *module_)),
      model_(*module_, context_, group, engine_options(options, *group)),
      optimizer_(make_optimizer(options.optimizer, context_, model_.parameters())),
      tape_(context_, ddp::nn::Recording::kOn, options.amp) {
  if (options.sync_batch_norm && ddp::nn::convert_sync_batchnorm(model_, *group) == 0) {
    throw std::invalid_argument("--sync-bn: --model " + options.model + " has no batch norms");
  }
  if (options.amp == ddp::DType::kFloat16) model_.scale_losses(scaler_.emplace());
  if (options.plateau_patience) {
    plateau_.emplace(ddp::nn::ReduceLrOnPlateauOptions{.base = options.optimizer.learning_rate,
                                                       .patience = *options.plateau_patience});
  }
}

Learner::Pass Learner::forward(const ddp::Batch& batch) {
  const Objective& objective = task_.objective();
  const ddp::nn::Variable output = model_.forward(tape_, task_.inputs(batch));
  Pass pass{.loss = objective.loss(tape_, output, batch), .metrics = {}};
  pass.metrics.push_back({pass.loss.value(), static_cast<double>(batch.count)});
  for (const ddp::nn::Tensor& count : objective.counts(context_, output.value(), batch)) {
    pass.metrics.push_back({count, 1});
  }
  return pass;
}

void Learner::step_optimizer(int epoch, std::int64_t steps_done) {
  const double base = plateau_ ? plateau_->learning_rate() : options_.optimizer.learning_rate;
  optimizer_->set_learning_rate(options_.learning_rate(base, epoch, steps_done));
  if (options_.max_grad_norm > 0) (void)model_.clip_grad_norm(options_.max_grad_norm);
  optimizer_->step();
}

std::optional<double> Learner::step_plateau(double loss) {
  if (!plateau_ || !plateau_->step(loss)) return std::nullopt;
  return plateau_->learning_rate();
}

// The model's have PyTorch's names, and the others have a prefix that names their owner.
std::vector<ddp::NamedBuffer> Learner::checkpoint_tensors() const {
  std::vector<ddp::NamedBuffer> tensors = ddp::nn::named_buffers(model_.state_dict());
  const auto add = [&](const std::vector<ddp::nn::NamedTensor>& state, const char* prefix) {
    std::ranges::move(ddp::nn::named_buffers(state, prefix), std::back_inserter(tensors));
  };
  std::vector<ddp::nn::NamedTensor> optimizer_state = optimizer_->state();
  // The rate is a function of flags and step.
  std::erase_if(optimizer_state, [](const auto& each) { return each.name == "learning_rate"; });
  add(optimizer_state, kOptimizerPrefix);
  if (scaler_) add(scaler_->state(), kScalerPrefix);
  if (plateau_) add(plateau_->state(), kSchedulePrefix);
  return tensors;
}

}  // namespace train
