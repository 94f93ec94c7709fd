// SPDX-License-Identifier: MIT
#include "ddp/nn/modules/batch_norm.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/nn/ops/normalisation_checks.h"

namespace ddp::nn {

BatchNorm::BatchNorm(const Scope& scope, std::size_t channels, const BatchNormOptions& options,
                     const Ranks& input_ranks)
    : options_(options),
      input_ranks_(input_ranks),
      weight_(scope.constant("weight", {options.affine ? channels : 0}, 1)),
      bias_(scope.constant("bias", {options.affine ? channels : 0}, 0)) {
  check_eps("BatchNorm", options.eps);
  check_momentum("BatchNorm", options.momentum);
  if (options.affine) {
    register_parameter(weight_);
    register_parameter(bias_);
  }
  if (!options.track_running_stats) return;
  const auto add_tensor = [this](Tensor& member, NamedTensor buffer) {
    member = buffer.value;
    register_buffer(std::move(buffer));
  };
  add_tensor(running_mean_, scope.buffer("running_mean", {channels}, 0));
  add_tensor(running_var_, scope.buffer("running_var", {channels}, 1));
  add_tensor(num_batches_tracked_, scope.buffer("num_batches_tracked", {}, 0, DType::kInt64));
}

Variable BatchNorm::forward(Tape& tape, const Variable& input) {
  const std::size_t rank = input.shape().rank();
  if (rank < input_ranks_.least || rank > input_ranks_.most) {
    throw std::invalid_argument("[nn] BatchNorm: the input is " + to_string(input.shape()) +
                                ", expected " + std::to_string(input_ranks_.least) + " to " +
                                std::to_string(input_ranks_.most) + " dimensions");
  }
  const Variable weight = options_.affine ? tape.watch(weight_) : weight_.value();
  const Variable bias = options_.affine ? tape.watch(bias_) : bias_.value();
  const bool tracks = options_.track_running_stats;
  if (!is_training() && tracks) {
    return batch_norm_inference(tape, input, weight, bias, running_mean_, running_var_,
                                options_.eps);
  }
  BatchNormTraining training{.eps = options_.eps, .momentum = options_.momentum};
  if (is_training()) training.reducer = reducer_;
  if (tracks) {
    training.running = {running_mean_.buffer(), running_var_.buffer(),
                        num_batches_tracked_.buffer()};
  }
  return batch_norm(tape, input, weight, bias, training);
}

void BatchNorm::set_statistics_reducer(std::shared_ptr<StatisticsReducer> reducer) {
  reducer_ = std::move(reducer);
}

}  // namespace ddp::nn
